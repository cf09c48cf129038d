#!/usr/bin/env bash
# --wire: gradients cross in 16 bits, checkpoints contain the residuals, and a resumed run is bitwise identical to one that
# never stopped.
# usage: wire.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
direct=(--shards 2 --momentum 0.9 --reducer direct)

loss_of() { sed -n "s|^step $1/.* loss \([0-9.]*\),.*|\1|p" "$folder/out"; }
memory_of() { sed -n "s|^memory .*[=+] $1 \([0-9.]*\).*|\1|p" "$folder/out"; }  # PART: MiB of it in the plan
about_the_same() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > 0 && b > 0 && a / b < 1.05 && b / a < 1.05) }'; }

train 2 "${direct[@]}" --steps 8 --run "$folder/fp32"
expect_line "in fp32 the order is canonical" '^order canonical --shards 2'
loss=$(loss_of 8)
saving=$(memory_of saving)
for type in bf16 fp16; do
  for policy in poll thread; do
    train 2 "${direct[@]}" --wire $type --progress $policy --steps 8 --checkpoint-every 4 --run "$folder/$type-$policy"
  done
  expect_line "$type: the type of messages" "^reducer direct 2.ranks $type"
  expect "$type: the memory plan counts the residuals of two ranks twice, and one buffer" \
    awk -v a="$saving" -v b="$(memory_of saving)" -v p="$(memory_of parameters)" 'BEGIN { exit !(a > 0 && p > 0 && b - a > 4.9 * p && b - a < 5.1 * p) }'
  expect_line "$type: the summary names the order of sums" "^order $type"
  expect_same_state "$type: both progress policies" "$(step_file "$folder/$type-poll" 8)" "$(step_file "$folder/$type-thread" 8)"
  expect "$type learns as fp32 does" about_the_same "$loss" "$(loss_of 8)"
  expect_other_state "$type: other weights than fp32's" "$(step_file "$folder/fp32" 8)" "$(step_file "$folder/$type-poll" 8)"
  train 2 "${direct[@]}" --wire $type --steps 8 --resume "$(step_file "$folder/$type-poll" 4)" --run "$folder/$type-on"
  expect_same_state "$type: resumes as if it had never stopped" "$(step_file "$folder/$type-poll" 8)" "$(step_file "$folder/$type-on" 8)"
  expect "$type: without a note" bash -c "! grep '^note' '$folder/out' | grep -v 'no CUDA device'"
done

expect "a checkpoint contains the residual of each rank" "$python" - "$(step_file "$folder/bf16-poll" 4)" <<'PYTHON'
import sys

import h5py
import numpy

with h5py.File(sys.argv[1], "r") as file:
    assert sorted(file["wire"]) == ["0", "1"], sorted(file["wire"])
    for rank in "01":
        for name in ("conv2/weights", "softmax_linear/biases"):
            kept, weights = file["wire"][rank][name][()], file["parameters"][name][()]
            assert kept.shape == weights.shape and numpy.isfinite(kept).all() and kept.any(), (rank, name)
PYTHON

# --- damaged -------------------------------------------------------------------------------------------------------------
# NAME EDIT WORDS: a checkpoint whose checksums are right and whose contents are not is refused.
damaged() {
  cp "$(step_file "$folder/bf16-poll" 4)" "$folder/damaged.h5"
  "$python" -c "import h5py; f = h5py.File('$folder/damaged.h5', 'r+'); $2"
  ranks 2 train_cifar "${small[@]}" "${direct[@]}" --wire bf16 --steps 8 --resume "$folder/damaged.h5" --run "$folder/from-damaged"
  expect_error "$1" 1 "damaged.h5 $3"
}
damaged "a NaN" "f['wire/1/conv2/weights'][0] = float('nan')" "wire/1 finite"
damaged "a rank less" "del f['wire/1']" "damaged --wire 1.rank 2.ranks"
damaged "none" "del f['wire']" "damaged --wire 0.ranks 2.ranks"
damaged "no text about them" "del f.attrs['residuals']" "damaged --wire 2.ranks 0.ranks"
for text in 0 -1 2x two; do
  damaged "residuals is '$text'" "f.attrs['residuals'] = '$text'" "damaged residuals $text"
done

# --- another number of ranks, another wire, no wire ----------------------------------------------------------------------
train 1 "${direct[@]}" --wire bf16 --steps 6 --resume "$(step_file "$folder/bf16-poll" 4)" --run "$folder/alone"
expect_line "one rank sends nothing" '^note --wire'
train 4 --shards 4 --momentum 0.9 --reducer direct --wire bf16 --steps 6 --resume "$(step_file "$folder/bf16-poll" 4)" --run "$folder/four"
expect_line "on more ranks nothing is lost" '^note --wire 2.ranks'
train 2 "${direct[@]}" --steps 6 --resume "$(step_file "$folder/bf16-poll" 4)" --run "$folder/back"
expect_line "another wire is another run" '^note --wire fp32 bf16'
train 2 "${direct[@]}" --wire bf16 --steps 10 --resume "$(step_file "$folder/fp32" 8)" --run "$folder/begun"
expect_line "which may begin at any step" '^note --wire bf16 fp32'
train 2 --wire bf16 --steps 1
expect_line "nothing is sent within a host" '^note --wire bf16 reducer shared'
train 1 --wire bf16 --steps 1
expect_line "nor by one rank" '^note --wire bf16'

ranks 2 train_cifar "${small[@]}" --steps 1 --wire bf16 --reducer ring
expect_error "a reducer that does not round" 2 '^train_cifar: --wire bf16 reducer ring hierarchical direct'
ranks 2 train_cifar "${small[@]}" --steps 1 --wire fp8
expect_error "an unknown type" 2 '--wire "fp8" fp32 bf16 fp16'
finish
