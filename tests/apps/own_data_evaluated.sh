#!/usr/bin/env bash
# Checkpoints of the user's images: evaluated with their normalisation, class names and weights, resumed, and used for --init.
# usage: own_data_evaluated.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
limit=200

# --- class folders -------------------------------------------------------------------------------------------------------
# DATA [CLASS=VALUE...]: 10 training and 5 test images of each class, whose pixels are about VALUE.
make_images() {
  "$python" - "$@" <<'END'
import os
import struct
import sys
import zlib

def png(path, value):
    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    rows = (b"\0" + bytes([value, 255 - value, 7] * 16)) * 16
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 16, 16, 8, 2, 0, 0, 0)) +
                   chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))

for part, count in (("train", 10), ("test", 5)):
    for name, value in (entry.split("=") for entry in sys.argv[2:]):
        os.makedirs(f"{sys.argv[1]}/{part}/{name}", exist_ok=True)
        for i in range(count):
            png(f"{sys.argv[1]}/{part}/{name}/{i}.png", int(value) + i)
END
}
make_images "$folder/one" cat=20 dog=120 fox=220
run_options=(--dataset folder --model tutorial --ema 0)
train 2 "${run_options[@]}" --lr 0.01 --data "$folder/one" --steps 20 --eval-every 20 --checkpoint-dir "$folder/run"
checkpoint=$(step_file "$folder/run" 20)
score() { grep -oE 'top-1 [0-9.]+ %, loss [0-9.]+, [0-9]+ samples' "$folder/out"; }
reported=$(score)
normalisation() { "$python" "$here/facts.py" "$1" normalisation; }
evaluate() {  # RANKS DATA CHECKPOINT...
  ranks "$1" evaluate --threads 1 --data "$2" "${@:3}"
  expect "evaluate ${*:2}" test "$code" = 0
}
expect "mean and deviation are in the checkpoint" "$python" - "$(normalisation "$checkpoint")" <<'END'
import json
import sys
import numpy
values = numpy.array([v + i for v in (20, 120, 220) for i in range(10)], float)
it = json.loads(sys.argv[1])
assert numpy.allclose(it["mean"], [values.mean(), 255 - values.mean(), 7]), it
assert numpy.allclose(it["deviation"], [values.std(), values.std(), 1]), it
END

# Weights: the average if there is one. These have none.
evaluate 1 "$folder/one" "$checkpoint"
expect "as the trainer reported" test "$(score)" = "$reported"
expect_line "which weights" "^step.20 $checkpoint raw top-1"
expect "no note" test ! -s "$folder/err"
cp "$folder/out" "$folder/all"
ranks 2 evaluate --data "$folder/one" --weights ema "$checkpoint"
expect_error "an average that is not there" 2 "^evaluate: $checkpoint moving.average --weights.raw"
expect "no wrong reason" test "$(grep -c -- '--ema' "$folder/err")" = 0

# The present training images do not matter, nor whether they exist.
make_images "$folder/train_is_dark" cat=0 dog=1 fox=2
rm -r "$folder/train_is_dark/test" && cp -r "$folder/one/test" "$folder/train_is_dark"
evaluate 2 "$folder/train_is_dark" "$checkpoint"
expect "other training images" cmp "$folder/all" "$folder/out"
mkdir "$folder/only_test" && cp -r "$folder/one/test" "$folder/only_test"
evaluate 2 "$folder/only_test" "$checkpoint"
expect "no training images" cmp "$folder/all" "$folder/out"
expect "the same test images are no other data" test ! -s "$folder/err"

# Classes are matched by name.
rm -r "$folder/only_test/test/cat"
evaluate 1 "$folder/only_test" "$checkpoint"
expect "a class without images" grep -qE '^ *cat +0 +0 +0 +-$' "$folder/out"
expect "the others have their rows" test "$(grep -E '^ *(dog|fox) ' "$folder/out")" = "$(grep -E '^ *(dog|fox) ' "$folder/all")"
mv "$folder/only_test/test/dog" "$folder/only_test/test/wolf"
ranks 2 evaluate --data "$folder/only_test" "$checkpoint"
expect_error "a class that the checkpoint does not know" 2 '^evaluate: only_test/test wolf cat dog fox'

# Nothing else gives the normalisation.
cp "$checkpoint" "$folder/old.h5"
"$python" "$here/facts.py" "$folder/old.h5" normalisation none
ranks 2 evaluate --data "$folder/one" "$folder/old.h5"
expect_error "a checkpoint without its normalisation" 1 '^evaluate: old.h5 name normalisation another'

# Control characters in a text do not reach the terminal.
cp "$checkpoint" "$folder/coloured.h5"
"$python" "$here/facts.py" "$folder/coloured.h5" files '"test images = \u001b]0;title\u0007"'
evaluate 1 "$folder/one" "$folder/coloured.h5"
expect "a note that shows the text" grep -qF '?]0;title?' "$folder/err"
expect "no control character" test "$(tr -d '\n\40-\176' <"$folder/err" | wc -c)" = 0

# --- resume and --init ---------------------------------------------------------------------------------------------------
make_images "$folder/renamed" wolf=20 dog=120 fox=220
ranks 2 train_cifar "${small[@]}" "${run_options[@]}" --data "$folder/renamed" --steps 30 --checkpoint-dir "$folder/run"
expect_error "a resume with other classes" 2 'wolf missing cat'
ranks 2 train_cifar "${small[@]}" "${run_options[@]}" --data "$folder/train_is_dark" --steps 30 --checkpoint-dir "$folder/run"
expect_error "a resume with other images" 2 'other.data images'
# A learning rate of nothing: no later evaluation is better.
train 2 "${run_options[@]}" --lr 1e-30 --data "$folder/one" --steps 22 --eval-every 1 --checkpoint-dir "$folder/run"
best=$(grep -oE '^top-1 [0-9.]+ %' <<<"$reported")
expect_line "the best is that of the run" "^accuracy $best step.22 ${best#top-1 } step.20"
expect "the normalisation stays" test "$(normalisation "$(step_file "$folder/run" 22)")" = "$(normalisation "$checkpoint")"

own() { train 1 "${run_options[@]}" --init "$checkpoint" --steps 1 --eval-every 0 "$@"; }
own --data "$folder/train_is_dark" --checkpoint-dir "$folder/tuned"
expect_line "a note" "^note normalised $checkpoint"
expect "weights keep their normalisation" test "$(normalisation "$(step_file "$folder/tuned" 1)")" = "$(normalisation "$checkpoint")"
own --data "$folder/one" --checkpoint-dir "$folder/same"
expect "the same images: no note" test "$(grep -c '^note .*normalis' "$folder/out")" = 0
own --data "$folder/renamed"
expect_line "other names are noted" '^note wolf missing cat'
make_images "$folder/two" cat=20 dog=120
own --lr 1e-30 --data "$folder/two" --checkpoint-dir "$folder/fewer"
expect_line "another number of classes" '^note softmax_linear zeros'
"$python" - "$checkpoint" "$(step_file "$folder/fewer" 1)" <<'END' || complain "only the last layer begins anew"
import sys
import h5py
with h5py.File(sys.argv[1]) as first, h5py.File(sys.argv[2]) as second:
    names = []
    first["parameters"].visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
    assert len(names) > 4
    for name in names:
        before, now = first["parameters"][name][()], second["parameters"][name][()]
        if name.startswith("softmax_linear"):
            assert now.shape[0] == 2 and before.shape[0] == 3, name
        elif not name.endswith(("mean", "variance")):
            assert abs(before - now).max() <= 1e-20, name
END

# --- HDF5 ----------------------------------------------------------------------------------------------------------------
mkdir "$folder/hdf5"
"$python" - "$folder/hdf5" <<'END'
import sys
import h5py
import numpy
for part, count in (("train", 30), ("test", 12)):
    labels = numpy.arange(count) % 3
    with h5py.File(f"{sys.argv[1]}/{part}.h5", "w") as file:
        file["images"] = (labels[:, None, None, None] * 100 + numpy.arange(16 * 16 * 3).reshape(16, 16, 3) % 50).astype("u1")
        file["labels"] = labels
END
train 2 --dataset hdf5 --data "$folder/hdf5" --model tutorial --steps 4 --eval-every 4 --ema 0.5 --checkpoint-dir "$folder/numbers"
reported=$(score)
rm "$folder/hdf5/train.h5"
numbers=$(step_file "$folder/numbers" 4)
evaluate 1 "$folder/hdf5" "$numbers"
expect "test.h5 suffices" test "$(score)" = "$reported"
expect_line "the average" 'moving.average top-1'
"$python" -c 'import h5py, sys; h5py.File(sys.argv[1], "r+")["labels"][5] = 7' "$folder/hdf5/test.h5"
ranks 1 evaluate --data "$folder/hdf5" "$numbers"
expect_error "a label that the checkpoint does not know" 2 'test.h5 7 2'

# --- scripts -------------------------------------------------------------------------------------------------------------
read_by_scripts() {  # CHECKPOINT WEIGHTS
  run env PYTHONDONTWRITEBYTECODE=1 "$python" -c 'import sys
sys.path.insert(0, sys.argv[1])
from lockstep import networks
name, arrays = networks.read_checkpoint(*sys.argv[2:])
assert name == "tutorial" and "conv1/weights" in arrays' "$here/../../scripts" "$@"
}
read_by_scripts "$checkpoint" auto
expect_line "scripts take the weights" "^raw.weights $checkpoint"
expect_line "and print the normalisation" '^images: mean deviation'
read_by_scripts "$numbers" auto
expect_line "or the average" '^moving.average'
read_by_scripts "$numbers" raw
expect_line "or the chosen weights" '^raw.weights'
read_by_scripts "$checkpoint" ema
expect_error "scripts refuse an average that is not there" 1 'moving.average --weights.raw'
finish
