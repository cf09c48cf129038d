#!/usr/bin/env bash
# Data and weights of the user: class folders of images, HDF5 files, --init. Unfit files are refused in one line.
# usage: own_data.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
data=$folder/data

# --- HDF5 ----------------------------------------------------------------------------------------------------------------
make_hdf5() {  # a numpy type
  rm -rf "$data" && mkdir "$data"
  "$python" - "$data" "$1" <<'END'
import sys
import h5py
import numpy
random = numpy.random.RandomState(1)
for part, count in (("train", 40), ("test", 12)):
    with h5py.File(f"{sys.argv[1]}/{part}.h5", "w") as file:
        file["images"] = random.randint(0, 256, (count, 10, 12, 3)).astype(sys.argv[2])
        file["labels"] = numpy.arange(count) % 3
END
}
own() { train "$1" --data "$data" "${@:2}"; }
for kind in uint8 float64; do
  make_hdf5 $kind
  own 2 --dataset hdf5 --steps 2 --eval-every 2
  expect_line "$kind" "^data HDF5 40 10x12x3 3 $data"
  expect_line "all test images of $kind" 'evaluation top-1 12.samples'
done
expect_line "a network for images of any size" '^model resnet20'
ranks 1 train_cifar "${small[@]}" --dataset hdf5
expect_error "no folder" 2 '--dataset hdf5 --data train.h5 test.h5'
ranks 2 train_cifar "${small[@]}" --dataset hdf5 --data "$data" --model deep_mnist
expect_error "a network of another size" 2 '1x28x28x1 1x10x12x3 --model'
"$python" - "$data/test.h5" <<'END'
import sys
import h5py
with h5py.File(sys.argv[1], "r+") as file:
    images = file["images"][()]
    del file["images"]
    file.create_dataset("images", data=0 * images, compression="gzip")
END
ranks 2 train_cifar "${small[@]}" --dataset hdf5 --data "$data"
expect_error "a compressed array" 1 "$data/test.h5 compressed"
rm "$data/test.h5"
ranks 2 train_cifar "${small[@]}" --dataset hdf5 --data "$data"
expect_error "a file is missing" 1 "$data/test.h5"

# --- class folders -------------------------------------------------------------------------------------------------------
rm -rf "$data"
"$python" - "$data" <<'END'
import os
import struct
import sys
import zlib

def png(path, width, height, value):
    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    rows = (b"\0" + bytes([value, 255 - value, 7] * width)) * height
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                   chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))

for part, count in (("train", 20), ("test", 5)):
    for place, name in enumerate(("dark", "light")):
        os.makedirs(f"{sys.argv[1]}/{part}/{name}")
        for i in range(count):
            png(f"{sys.argv[1]}/{part}/{name}/{i}.png", 16, 16, 20 + 200 * place + i)
END
own 2 --dataset folder --steps 8 --eval-every 8 --ema 0 --checkpoint-dir "$folder/run"
expect_line "its classes" "^data 40 16x16x3 2 $data"
ranks 1 evaluate --threads 1 --data "$data" --weights raw "$folder/run" --logits "$folder/logits.h5"
expect_line "their names" '^true dark light'
checkpoint=$(step_file "$folder/run" 8)
sum=$(cksum <"$checkpoint")
ranks 1 evaluate --threads 1 --data "$data" --weights raw "$checkpoint" --logits "$checkpoint"
expect_error "logits in place of the checkpoint" 1 "--logits $checkpoint"
expect "it is as it was" test "$(cksum <"$checkpoint")" = "$sum"
mkfifo "$folder/pipe"
ranks 1 evaluate --threads 1 --data "$data" --weights raw "$checkpoint" --logits "$folder/pipe"
expect_error "logits in place of a pipe" 1 "$folder/pipe"
expect "it is a pipe still" test -p "$folder/pipe"
"$python" - "$folder/logits.h5" <<'END' || complain "the logits are not those of all test images"
import sys
import h5py
with h5py.File(sys.argv[1]) as file:
    assert file["samples"].shape == (10, 16, 16, 3) and file["logits"].shape == (10, 2)
    assert list(file["labels"]) == [0] * 5 + [1] * 5 and file.attrs["model"] == b"resnet20"
END
echo none >"$data/test/light/3.png"
ranks 2 train_cifar "${small[@]}" --dataset folder --data "$data"
expect_error "no image" 1 "$data/test/light/3.png PNG JPEG"
rm "$data/test/light/3.png"
mkfifo "$data/test/light/3.png"
ranks 2 train_cifar "${small[@]}" --dataset folder --data "$data"
expect_error "a pipe for an image" 1 "$data/test/light/3.png regular"
rm "$data/test/light/3.png"
ln -s 3.png "$data/test/light/3.png"
ranks 2 train_cifar "${small[@]}" --dataset folder --data "$data"
expect_error "a link to itself" 1 "$data/test/light Too.many.levels.of.symbolic.links"

# --- weights to begin with -----------------------------------------------------------------------------------------------
train 2 --steps 3 --checkpoint-dir "$folder/first"
first=$(step_file "$folder/first" 3)
train 2 --steps 1 --lr 1e-30 --seed 9 --init "$first" --checkpoint-dir "$folder/second"
"$python" - "$first" "$(step_file "$folder/second" 1)" <<'END' || complain "the run does not begin with the weights of --init"
import sys
import h5py
with h5py.File(sys.argv[1]) as first, h5py.File(sys.argv[2]) as second:
    assert second.attrs["step"] == 1
    for section in ("parameters", "ema"):
        names = []
        first[section].visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        assert names
        for name in names:
            assert (first["parameters"][name][()] == second[section][name][()]).all(), (section, name)
END
train 2 --steps 2 --lr 1e-30 --seed 9 --init "$first" --checkpoint-dir "$folder/second"
expect_line "the same command resumes" '^resumed step.1 2'
ranks 2 train_cifar "${small[@]}" --model resnet_small --init "$first" --steps 1
expect_error "weights of another model" 1 "$first model 'tutorial'"
ranks 2 train_cifar "${small[@]}" --init "$folder/none.h5" --steps 1
expect_error "weights that are not there" 1 "$folder/none.h5 No.such.file"
finish
