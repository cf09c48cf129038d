#!/usr/bin/env bash
# Each optimizer of the registry: a run of one rank that resumes on two is bitwise identical to one that goes on, slots and
# step number included. Options belong to one optimizer.
# usage: optimizers.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
small_checkpoints
state=(--shards 4 --global-batch 16 --weight-decay 0.001 --reducer tree)

"$build/train_cifar" --list >"$folder/list"
optimizers=$(sed -n '/^optimizers$/,/^learning-rate/s/^  \([a-z_0-9]*\) .*/\1/p' "$folder/list")
expect "the registry has Adam" grep -qw adam <<<"$optimizers"
for optimizer in $optimizers; do
  train 1 "${state[@]}" --optimizer "$optimizer" --steps 4 --checkpoint-every 2 --run "$folder/$optimizer/one"
  mkdir -p "$folder/$optimizer/two/checkpoints"
  mv "$(step_file "$folder/$optimizer/one" 2)" "$folder/$optimizer/two/checkpoints"
  train 2 "${state[@]}" --optimizer "$optimizer" --steps 4 --run "$folder/$optimizer/two"
  expect_line "resumes" '^resumed /checkpoints/step-0000000002\.h5 2 4'
  expect_same_state "$optimizer" "$(step_file "$folder/$optimizer/one" 4)" "$(step_file "$folder/$optimizer/two" 4)"
done

# Clipping and gradient accumulation are bitwise identical on any number of ranks too, and accumulation equals sharding.
train 1 "${state[@]}" --clip-norm 0.5 --steps 4 --run "$folder/clip/one"
train 2 "${state[@]}" --clip-norm 0.5 --steps 4 --run "$folder/clip/two"
expect_same_state "clipped" "$(step_file "$folder/clip/one" 4)" "$(step_file "$folder/clip/two" 4)"
expect_other_state "clipping makes a difference" "$(step_file "$folder/clip/one" 4)" "$(step_file "$folder/sgd/one" 4)"
train 2 --weight-decay 0.001 --reducer tree --accumulate 2 --steps 4 --run "$folder/accumulate"
expect_line "two shards on each rank" '^batch 16 = 4 shards 2'
expect_same_state "accumulated" "$(step_file "$folder/accumulate" 4)" "$(step_file "$folder/sgd/one" 4)"
ranks 1 train_cifar "${small[@]}" --accumulate 2 --shards 4
expect_error "two numbers of shards" 2 '--accumulate --shards'

# Weight decay is a penalty of the loss unless the optimizer decouples it.
train 1 "${state[@]}" --optimizer adam --steps 1 --run "$folder/adam_log"
expect "adam's loss has a penalty" grep -q '"penalty":0\.' "$folder/adam_log/metrics.jsonl"
train 1 "${state[@]}" --optimizer adamw --steps 1 --run "$folder/adamw_log"
expect_line "its decay is decoupled" '^optimizer adamw beta1.0.9 beta2.0.999 1e-08 lr.0.001 decoupled'
expect "adamw's has none" grep -q '"penalty":0,' "$folder/adamw_log/metrics.jsonl"

# A checkpoint knows its optimizer's options, and no others.
ranks 1 train_cifar "${small[@]}" "${state[@]}" --optimizer adam --beta2 0.99 --steps 9 --check --resume "$(step_file "$folder/adam/two" 4)"
expect_line "a changed option is noted" '^note --beta2 0.99 0.999'
ranks 1 train_cifar "${small[@]}" --optimizer adam --momentum 0.9
expect_error "another optimizer's option" 2 '--momentum sgd adam --beta1'
ranks 1 train_cifar --help-all
expect_line "options stand under their optimizer" '--optimizer adam adamw nadam lamb'
ranks 1 train_cifar "${small[@]}" "${state[@]}" --steps 9 --resume "$(step_file "$folder/adam/two" 4)" --momentum 0.9
expect_error "another optimizer" 1 "'optimizer/momentum'"
finish
