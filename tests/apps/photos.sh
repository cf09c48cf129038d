#!/usr/bin/env bash
# Photos of different sizes: train_images, a resume on another number of ranks, evaluate, classify, and errors.
# usage: photos.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py

photos=$folder/photos
python3 - "$photos" <<'PYTHON' || exit 77
# Uncompressed BMP files need no library: red or blue pictures of several sizes.
import os, struct, sys
for part, count in (("train", 12), ("val", 6)):
    for name, pixel in (("red", b"\x20\x10\xd0"), ("blue", b"\xd0\x20\x10")):
        os.makedirs(f"{sys.argv[1]}/{part}/{name}")
        for i in range(count):
            width, height = 20 + 7 * i, 64 - 3 * i
            row = pixel * width
            row += b"\0" * (-len(row) % 4)
            data = row * height
            head = struct.pack("<2sIHHIIiiHHIIiiII", b"BM", 54 + len(data), 0, 0, 54, 40, width, height, 1, 24, 0, len(data),
                               0, 0, 0, 0)
            with open(f"{sys.argv[1]}/{part}/{name}/{i}.bmp", "wb") as file:
                file.write(head + data)
PYTHON
echo notes >"$photos/train/red/notes.txt"
run=(train_images --data "$photos" --model resnet_small --image-size 16 --global-batch 8 --shards 2 --ema 0 --lr 0.01
     --eval-every 0 --summary-every 0 --threads 1)
elsewhere=("${run[0]}" "${run[@]:3}")  # without --data

ranks 2 "${run[@]}" --steps 24 --run "$folder/whole"
expect "training on two ranks" test "$code" = 0
expect "the summary names size, other files and classes" grep -q 'resized to 16x16; 1 other file left out; classes blue, red' "$folder/out"
ranks 1 "${run[@]}" --steps 12 --run "$folder/parts"
ranks 2 "${run[@]}" --steps 24 --workers 2 --run "$folder/parts"
expect "a resume on other ranks" test "$code" = 0
expect_same_state "a resume on other ranks" "$(step_file "$folder/whole" 24)" "$(step_file "$folder/parts" 24)"
ranks 1 train_images --data "$photos" --model resnet_small --image-size 16 --global-batch 8 --steps 5 --lr 0.01 --threads 1
expect "evaluations after the epoch and at the end" test "$(grep -oE 'step [0-9]+/5 evaluation' "$folder/out" | tr -dc '0-9\n')" = $'35\n55'

# A run inside the folder of the classes makes runs/ there, which is no class, also in the second run.
for _ in 1 2; do
  run env -C "$photos/train" "$build/train_images" --data . --validation 0.3 --model resnet_small --image-size 16 --steps 1 --threads 1
  expect "a run beside the classes" bash -c "[[ $code == 0 ]] && grep -q 'classes blue, red' '$folder/out'"
done
rm -r "$photos/train/runs"
run "$build/pack_images" "$photos" "$folder/photos.h5"
expect "packing" test "$code" = 0
for program in "pack_images $folder/nowhere $folder/no.h5" "evaluate $folder/whole --data $folder/nowhere" "${run[*]} --data $folder/nowhere"; do
  # shellcheck disable=SC2086
  ranks 1 $program
  expect_error "${program%% *}: a folder that is not there" 2 "${program%% *}: $folder/nowhere.does.not.exist --data"
done
ranks 1 train_images --data "$photos" --model resnet20 --image-size 1024 --global-batch 16384 --steps 1 --threads 1
expect_error "images that are too large" 1 "out.of.memory --batch --image-size"
ranks 2 "${run[@]}" --data "$folder/photos.h5"
expect_error "a packed file for a folder" 2 "$folder/photos.h5 --dataset.packed"
ranks 2 "${elsewhere[@]}" --steps 24 --dataset packed --data "$folder/photos.h5" --run "$folder/packed"
expect "training on packed images" test "$code" = 0
expect_same_state "packed images" "$(step_file "$folder/whole" 24)" "$(step_file "$folder/packed" 24)"
ranks 1 evaluate "$folder/packed" --data "$folder/photos.h5"
expect "evaluate reads packed images" grep -q 'top-1 100.00 %.*12 samples' "$folder/out"
edits=(--color-jitter 0.4,0,0,0.1 --trivial-augment --random-erase 0.5 --cutmix 1 --mixup 0.2)
ranks 2 "${run[@]}" "${edits[@]}" --steps 4 --run "$folder/two"
expect_line "the summary names the changes" '^augmented random.erasing.0\.5 CutMix.1 brightness.0\.4 TrivialAugment'
ranks 1 "${run[@]}" "${edits[@]}" --steps 4 --run "$folder/one"
expect_same_state "changes on other ranks" "$(step_file "$folder/two" 4)" "$(step_file "$folder/one" 4)"

ranks 1 evaluate "$folder/whole" --data "$photos"
expect "evaluate reads the size from the checkpoint" grep -q 'top-1 100.00 %.*12 samples' "$folder/out"

ranks 1 classify "$folder/whole" "$photos/val/red" "$photos/val/blue/0.bmp"
expect "classify" test "$code" = 0
expect "seven lines" test "$(grep -c '%' "$folder/out")" = 7
expect "the right classes" test "$(grep -cE '/red/[0-9].bmp: red|/blue/0.bmp: blue' "$folder/out")" = 7
ranks 1 classify "$folder/whole" --json --top 1 "$photos/val/blue/1.bmp"
expect "JSON" grep -qE '"name":"blue","probability":(1.0|0.[5-9])' "$folder/out"
# shellcheck disable=SC2016
run bash -c 'echo "$3" | "$1" "$2" -' - "$build/classify" "$folder/whole" "$photos/val/red/2.bmp"
expect "names on standard input" grep -q '2.bmp: red' "$folder/out"
printf 'id,file\n1,%s/val/red/2.bmp\n2,%s/val/blue/1.bmp\n' "$photos" "$photos" >"$folder/new.csv"
ranks 1 classify "$folder/whole" "$folder/new.csv" --top 1
expect "a table of files" test "$(grep -cE '2.bmp: red|1.bmp: blue' "$folder/out")" = 2
cp "$photos/val/red/2.bmp" "$folder/two"$'\n'"lines.bmp"
ranks 1 classify "$folder/whole" "$folder" --top 1
expect "a name with a line end" grep -q 'two?lines.bmp: red' "$folder/out"
cp "$photos/val/red/2.bmp" "$folder/--dash.bmp"
run env -C "$folder" "$build/classify" whole --top 1 -- --dash.bmp
expect "a name with a dash" grep -q '^--dash.bmp: red' "$folder/out"
echo "no image" >"$folder/bad.jpg"
ranks 1 classify "$folder/whole" "$folder/bad.jpg" "$photos/val/red/3.bmp"
expect "a damaged file fails" test "$code" = 1
expect "the others are classified" grep -q '3.bmp: red' "$folder/out"
expect "the damaged file is named" grep -q 'classify: .*bad.jpg' "$folder/err"
ranks 1 classify "$folder/whole"
expect "no files" test "$code" = 2
ranks 2 classify "$folder/whole" "$photos/val/red/3.bmp"
expect "several ranks" test "$code" = 2

# Weights of a PyTorch module: all ones, but another number of classes.
python3 - "$folder/module.safetensors" <<'PYTHON'
import array, json, struct, sys
shapes = {"conv.weight": (16, 3, 3, 3)}
header, numbers, at = {}, b"", 0
for name, shape in shapes.items():
    count = 1
    for extent in shape:
        count *= extent
    numbers += array.array("f", [1.0] * count).tobytes()
    header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + 4 * count]}
    at += 4 * count
text = json.dumps(header).encode()
open(sys.argv[1], "wb").write(struct.pack("<Q", len(text)) + text + numbers)
PYTHON
ranks 2 "${run[@]}" --steps 2 --init "$folder/module.safetensors"
expect_error "weights of another model" 1 'train_images: .*module.safetensors'
cp -r "$photos" "$folder/renamed"
for part in train val; do mv "$folder/renamed/$part/red" "$folder/renamed/$part/green"; done
for init in "$(step_file "$folder/whole" 24)" "$folder/whole.safetensors"; do
  [[ -e $init ]] || ranks 1 export_model "$folder/whole" "$init"
  ranks 2 "${run[@]}" --steps 2 --init "$init"
  expect "weights of the same classes" bash -c "[[ $code == 0 ]] && ! grep -q 'softmax_linear' '$folder/out'"
  ranks 2 "${elsewhere[@]}" --steps 2 --init "$init" --data "$folder/renamed"
  expect_line "other classes are named" '^note other.classes green red'
  expect_line "and begin with a new last layer" '^note softmax_linear/weights'
done
ranks 2 "${run[@]}" --steps 2 --init "$folder/none.safetensors"
expect_error "weights that are not there" 1 'train_images: .*none.safetensors No.such.file'
ranks 2 train_cifar --image-size 16 --steps 1
expect_error "a set of one size" 2 'train_cifar: --image-size'
cp "$folder/bad.jpg" "$photos/train/red/bad.jpg"
ranks 2 "${run[@]}" --steps 24
expect_error "a damaged training image" 65 'train_images: .*bad.jpg --check-images.skip'
ranks 2 "${run[@]}" --steps 24 --check-images skip --run "$folder/skipped"
expect "damaged images are left out" grep -qE '^note +1 of 37' "$folder/out"
expect_same_state "without damaged images" "$(step_file "$folder/whole" 24)" "$(step_file "$folder/skipped" 24)"
ranks 2 train_mnist --dataset folder --data "$photos" --image-size 28 --flip none --check-images decode,skip --steps 1
expect "grey images for a model of one channel" test "$code" = 0
finish
