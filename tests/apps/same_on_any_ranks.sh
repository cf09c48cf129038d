#!/usr/bin/env bash
# The result does not depend on the number of ranks or on their shares: four shards on 1, 2 and 4 ranks, and five on 1 to 4,
# give bitwise identical weights, momentum, averages and scores, under each canonical reducer and each progress policy.
# usage: same_on_any_ranks.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
four=(--shards 4 --global-batch 32 --steps 3 --momentum 0.9 --nesterov)
five=(--shards 5 --global-batch 20 --steps 3 --momentum 0.9 --nesterov)
compared=0

sweep() {  # NAME OPTIONS...: rows "ranks reducer policy" on stdin, each against one rank
  local name=$1 count reducer policy
  shift
  train 1 "${four[@]}" "$@" --reducer tree --progress wait --run "$folder/$name"
  while read -r count reducer policy; do
    train "$count" "${four[@]}" "$@" --reducer "$reducer" --progress "$policy" --run "$folder/other"
    if grep -q '^order  *canonical: --shards 4 .* on any number of ranks from 1 to 4, of 1 thread$' "$folder/out"; then
      expect_same_state "$name: $count ranks, $reducer, $policy" "$(step_file "$folder/$name" 3)" "$(step_file "$folder/other" 3)"
      compared=$((compared + 1))
    fi
    rm -rf "$folder/other"
  done
}

# All reducers of the registry that are not for GPUs alone on 2 and on 4 ranks; together they meet every policy. A new one is tested without a line here.
"$build/train_cifar" --list >"$folder/list"
i=0
for count in 2 4; do
  for reducer in $(sed -n '/^reducers$/,/^progress/s/^  \([a-z_]*\) .*/\1/p' "$folder/list" | grep -vx nccl); do
    policies=(wait poll thread)
    echo "$count $reducer ${policies[i++ % 3]}"
  done
done >"$folder/rows"
sweep fp32 <"$folder/rows"
expect "five reducers and more are canonical on 2 and on 4 ranks" test $compared -ge 10

# Shares that are no subtrees, set by the planner and by hand, and statistics over all shards.
train 1 "${five[@]}" --model resnet_small --sync-bn --run "$folder/five"
for ranks in '2 direct equal' '3 hierarchical 1,3,1' '4 auto equal'; do
  read -r count reducer shares <<<"$ranks"
  train "$count" "${five[@]}" --model resnet_small --sync-bn --reducer "$reducer" --shares "$shares" --run "$folder/shared"
  expect_same_state "shares: $ranks" "$(step_file "$folder/five" 3)" "$(step_file "$folder/shared" 3)"
  rm -rf "$folder/shared"
done
# Shares that change while the ranks train.
train 1 "${five[@]}" --steps 24 --run "$folder/five_long"
train 2 "${five[@]}" --steps 24 --shares auto --run "$folder/auto"
expect_same_state "--shares auto" "$(step_file "$folder/five_long" 24)" "$(step_file "$folder/auto" 24)"

if has_bf16; then
  sweep bf16 --precision bf16 <<<"4 halving_doubling thread"
fi

# Nor does the size of the buckets show, which "auto" chooses by the link between hosts.
train 2 "${four[@]}" --reducer halving_doubling --bucket-mb 0.0625 --run "$folder/short"
expect_same_state "buckets of 64 KiB" "$(step_file "$folder/fp32" 3)" "$(step_file "$folder/short" 3)"

# In another order the last bits differ: the comparison above can fail.
train 1 --shards 2 "${four[@]:2}" --run "$folder/two_shards"
expect_other_state "two shards differ from four" "$(step_file "$folder/fp32" 3)" "$(step_file "$folder/two_shards" 3)"

small_data "$folder/data"
# The score of the whole test set in metrics.jsonl: the same numbers on any number of ranks.
for count in 1 4; do
  train $count "${four[@]}" --model tutorial --dataset hdf5 --data "$folder/data/small" --eval-every 3 --run "$folder/logs$count"
  grep '"kind":"evaluation"' "$folder/logs$count/metrics.jsonl" | sed 's/"time":[0-9.]*,//' >"$folder/score$count"
done
expect "the score on 4 ranks is that on one" cmp "$folder/score1" "$folder/score4"
expect "all test images were scored" grep -q '"samples":100\b' "$folder/score1"
finish
