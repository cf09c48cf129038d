#!/usr/bin/env bash
# The blocks of the other pages run too. commands.py lists those that do not, each with its reason.
# usage: commands_docs.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=SCRIPTDIR/lib_clone.sh
. "$(dirname "$0")/lib_clone.sh"

# Earlier pages have made data, photos of two classes, and runs.
"$python" - "$clone" <<'END'
import os, struct, sys
os.chdir(sys.argv[1])
for part, count in ("train", 20), ("test", 4):
    for name, pixel in ("cat", b"\x20\x10\xd0"), ("dog", b"\xd0\x20\x10"):
        os.makedirs(f"photos/{part}/{name}")
        for i in range(count):
            width, height = 40 + 4 * i, 48
            data = pixel * width * height
            head = struct.pack("<2sIHHIIiiHHIIiiII", b"BM", 54 + len(data), 0, 0, 54, 40, width, height, 1, 24, 0, len(data), 0, 0, 0, 0)
            open(f"photos/{part}/{name}/{i}.bmp", "wb").write(head + data)
os.makedirs("data/mnist")
for part, count in ("train", 60000), ("t10k", 10000):
    open(f"data/mnist/{part}-images-idx3-ubyte", "wb").write(struct.pack(">4I", 0x803, count, 28, 28) + bytes(784 * count))
    open(f"data/mnist/{part}-labels-idx1-ubyte", "wb").write(struct.pack(">2I", 0x801, count) + bytes(i % 10 for i in range(count)))
END
run env -C "$clone" scripts/get_data.sh cifar10
expect "the data are there" [ $code = 0 ]
cp "$clone/photos/test/cat/0.bmp" "$clone/new.jpg"
cp "$clone/photos/test/cat/1.bmp" "$clone/holiday/"
for name in first second third; do
  run env -C "$clone" build/train_cifar --model resnet_small --run $name --steps 2 --global-batch 16 --eval-every 2 --lr 0.0${#name}
done
cp "$clone"/runs/first/checkpoints/{step-*,best}.h5
run env -C "$clone" build/train_cifar --log-dir logs --steps 2 --global-batch 16 --eval-every 0 --threads 1

pages=()
for path in "$root"/CONTRIBUTING.md "$root"/docs/*.md "$root/slurm/README.md"; do
  [[ $path == */getting-started.md ]] || pages+=("${path#"$root/"}")
done
for name in "${pages[@]}"; do
  page_works "$name"
  [[ $name != docs/data.md ]] || rm "$clone/photos.h5"  # another page makes it too
done
run "$python" "$here/commands.py" --unused "$root/README.md" "$root/docs/getting-started.md" "${pages[@]/#/"$root/"}"
expect "each row of NOT_RUN is needed: $(cat "$folder/raw")" [ $code = 0 ]
finish
