#!/usr/bin/env bash
# --sync-bn: batch norm by the mean and variance of the global batch. Four shards are bitwise identical on one, two and four
# ranks and after a resume, and equal to one shard within rounding. A rank that dies during a sum is named.
# usage: sync_bn.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
net=(--model resnet_small --ema 0.5 --lr 0.02 --momentum 0.9)
batch=("${net[@]}" --global-batch 32)
four=("${batch[@]}" --shards 4 --sync-bn)

train 1 "${four[@]}" --steps 4 --run "$folder/one"
expect_line "the summary names it" '^batch.norm global.batch'
train 4 "${four[@]}" --steps 2 --reducer tree --progress poll --run "$folder/four"
train 2 "${four[@]}" --steps 4 --run "$folder/four"
expect_line "resumes" '^resumed /checkpoints/step-0000000002\.h5 2 4'
expect "no note" bash -c "! grep '^note' '$folder/out' | grep -qv 'no CUDA device'"
expect_same_state "4 steps on one rank, 2 on four and 2 on two" "$(step_file "$folder/one" 4)" "$(step_file "$folder/four" 4)"

# One shard is the global batch by itself.
train 1 "${batch[@]}" --steps 4 --run "$folder/large"
train 2 "${batch[@]}" --shards 4 --steps 4 --run "$folder/apart"
expect "as one large batch, within rounding, and not as four by themselves" "$python" - "$(step_file "$folder/large" 4)" \
  "$(step_file "$folder/one" 4)" "$(step_file "$folder/apart" 4)" <<'PYTHON'
import sys

import h5py
import numpy


def weights(name):
    found = {}
    with h5py.File(name) as file:
        file["parameters"].visititems(
            lambda path, item: found.update({path: item[...]}) if isinstance(item, h5py.Dataset) else None)
    return found


def distance(one, other):
    return max(abs(one[path] - other[path]).max() for path in one)


large, together, apart = (weights(name) for name in sys.argv[1:])
assert len(large) > 20
assert distance(large, together) < 2e-4, distance(large, together)
assert distance(large, apart) > 2e-3, distance(large, apart)
PYTHON

# Another normalisation is another run, with a note.
train 2 "${batch[@]}" --shards 4 --steps 5 --resume "$(step_file "$folder/four" 4)"
expect_line "without --sync-bn" '^note batch.norm shard global.batch'
train 2 --sync-bn --steps 1
expect_line "a model without batch norm" '^note --sync-bn tutorial'

# Each micro-batch has its own statistics, with one shard of each rank. So the number of ranks is fixed.
accumulated=("${batch[@]}" --accumulate 2 --sync-bn --run "$folder/accumulated")
train 2 "${accumulated[@]}" --steps 2
expect_line "the summary names the micro-batches" '^batch.norm 2'
expect_line "the numbers of ranks with these bits" '^order canonical 2.ranks'
ranks 1 train_cifar "${small[@]}" "${accumulated[@]}" --steps 4
expect_error "on one rank" 2 '^train_cifar: --sync-bn --accumulate.2 4'
without=(--accumulate 2 --sync-bn --run "$folder/without")
train 2 "${without[@]}" --steps 1
train 1 "${without[@]}" --steps 2
expect_line "without batch norm it resumes" '^resumed step.1 2'
expect_line "with a note" '^note --accumulate 2 4 shards'

for reducer in shared tree; do
  start 3 "${net[@]}" --global-batch 12 --sync-bn --reducer $reducer
  await 60 has_done 4
  killed=$(pid_of_rank 1)
  kill -KILL "$killed"
  collect
  expect "$reducer: a failure" test "$code" -ne 0
  expect "$reducer: the rank is named" lines_with "$folder/err" "^train_cifar: rank.1 pid.$killed died step.[0-9]+"
  expect "$reducer: no other rank is named" test "$(grep -cE 'rank [0-9]+ \(' "$folder/err")" = 1
done
finish
