#!/usr/bin/env bash
# Image files that fail after the start: a checkpoint and an error, or the end of the run without them, with the same bits.
# usage: damaged_photos.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py

photos=$folder/photos
"$python" - "$photos" <<'PYTHON' || exit 77
# PNG files of noise, of the same sizes in both classes. Those with a z lack rows, which only decoding them shows.
import os, random, struct, sys, zlib
random.seed(1)
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
def write(path, width, damaged=False):
    height = 40
    data = zlib.compress(b"".join(b"\0" + random.randbytes(3 * width) for _ in range(height)), 0)
    if damaged:
        data = data[:len(data) // 2]
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                   chunk(b"IDAT", data) + chunk(b"IEND", b""))
for part, count in (("train", 12), ("val", 6)):
    for name in ("red", "blue"):
        os.makedirs(f"{sys.argv[1]}/{part}/{name}")
        for i in range(count):
            write(f"{sys.argv[1]}/{part}/{name}/{i}.png", 20 + i)
for damaged in ("train/red/zz.png", "train/red/zzz.png", "val/blue/zy.png"):
    write(f"{sys.argv[1]}/{damaged}", 40, True)
PYTHON
run=(train_images --data "$photos" --model resnet_small --image-size 16 --global-batch 4 --shards 2 --ema 0 --lr 0.01
     --summary-every 0 --log-every 1 --threads 1 --mixup 0.2)

# Seed 3: the first damaged image comes in a later step.
part=("$build/train_images" "${run[@]:1}" --seed 3 --steps 30 --run "$folder/parts")
run mpirun -np 2 "${part[@]}" --eval-every 0
expect_error "a damaged training image" 65 'train_images: train/red/zzz?.png --check-images.skip --check-images.decode'
expect "a checkpoint of the steps so far" test -n "$(compgen -G "$folder/parts/checkpoints/step-*.h5")"
run "${part[@]}" --eval-every 15 --check-images skip
expect "the run goes on" test "$code" = 0
for name in zz.png zzz.png zy.png; do
  expect "$name is named once" test "$(grep -c "/$name is no readable image" "$folder/out")" = 1
done
ranks 2 "${run[@]}" --run "$folder/whole" --seed 3 --steps 30 --eval-every 15 --check-images skip
expect "a run without the damaged images" test "$code" = 0
expect "a rank names what another has met" test "$(grep -c "is no readable image" "$folder/out")" = 3
expect_same_state "other ranks and another start" "$(step_file "$folder/whole" 30)" "$(step_file "$folder/parts" 30)"

for count in 1 2; do
  ranks $count evaluate "$folder/whole" --data "$photos"
  expect "evaluate counts whole images on $count ranks" grep -q ' 12 samples' "$folder/out"
  expect "evaluate names the other" test "$(grep -c 'val/blue/zy.png is no readable image' "$folder/err")" = 1
  mv "$folder/out" "$folder/evaluated.$count"
done
expect "the same on any number of ranks" cmp "$folder/evaluated.1" "$folder/evaluated.2"

run "$build/pack_images" "$photos" "$folder/photos.h5"
ranks 2 "${run[0]}" "${run[@]:3}" --run "$folder/packed" --dataset packed --data "$folder/photos.h5" --seed 3 --steps 30 --eval-every 15 --check-images skip
expect_same_state "packed images" "$(step_file "$folder/whole" 30)" "$(step_file "$folder/packed" 30)"

# A damaged image of an evaluation: the checkpoint is that of the step before it.
rm "$photos"/train/red/zz*.png
ranks 2 "${run[@]}" --run "$folder/evaluated" --steps 5 --eval-every 5
expect_error "a damaged image of the evaluation" 65 'train_images: val/blue/zy.png --check-images.skip'
expect "it is saved" test -e "$(step_file "$folder/evaluated" 5)"
ranks 1 evaluate "$folder/evaluated" --data "$photos"
expect_error "evaluate" 65 'evaluate: val/blue/zy.png --check-images.skip'
ranks 2 evaluate "$folder/evaluated" --data "$photos" --check-images skip
expect "evaluate without it" grep -q ' 12 samples' "$folder/out"
rm "$photos/val/blue/zy.png"

# Files that change, whatever is asked for damaged ones.
ranks 1 "${run[@]}" --run "$folder/changed" --steps 4 --eval-every 0
ranks 1 "${run[@]}" --run "$folder/changed" --steps 5 --eval-every 0
expect "the same files are the same data" test "$code" = 0
mv "$photos/train/red" "$photos/train/other"
mv "$photos/train/blue" "$photos/train/red"
mv "$photos/train/other" "$photos/train/blue"
ranks 1 "${run[@]}" --run "$folder/changed" --steps 8 --eval-every 0
expect_error "swapped classes" 2 'train_images: other.data'
launch 2 "${run[@]}" --run "$folder/during" --steps 1000000 --eval-every 0 --check-images skip
await 40 has_done 12
head -c "$(stat -c %s "$photos/train/red/3.png")" /dev/urandom >"$folder/other.png"
cp "$folder/other.png" "$photos/train/red/3.png"
await 40 ended
collect
expect_error "a file that is overwritten" 65 'train_images: train/red/3.png changed'
expect "with a checkpoint" test -n "$(compgen -G "$folder/during/checkpoints/step-*.h5")"
finish
