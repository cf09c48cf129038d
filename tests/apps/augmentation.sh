#!/usr/bin/env bash
# Cutout, mixup and crop padding: bitwise identical on any number of ranks and after a resume. The summary names them, a
# resume compares them, and data without images refuse them.
# usage: augmentation.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
state=(--shards 4 --global-batch 16 --reducer tree --label-smoothing 0.1)
all=(--crop-padding 4 --cutout 8 --mixup 0.4)

train 1 "${state[@]}" "${all[@]}" --steps 4 --run "$folder/one"
expect_line "the summary names them" '^augmented crop 4 cutout.8 mixup.0\.4'
train 4 "${state[@]}" "${all[@]}" --steps 2 --run "$folder/two"
train 2 "${state[@]}" "${all[@]}" --steps 4 --run "$folder/two"
expect_same_state "on 4 ranks and then on 2" "$(step_file "$folder/one" 4)" "$(step_file "$folder/two" 4)"
checks=$((checks + 1))
grep -qE '^note .*--(crop|cutout|mixup)' "$folder/out" && complain "the same augmentations are noted as others"
train 1 "${state[@]}" --steps 4 --run "$folder/plain"
checks=$((checks + 1))
grep -q '^augmented' "$folder/out" && complain "a summary names augmentations that are off"
for option in '--crop-padding 4' '--cutout 8' '--mixup 0.4'; do
  # shellcheck disable=SC2086
  train 1 "${state[@]}" $option --steps 4 --run "$folder/${option%% *}"
  expect_other_state "$option makes a difference" "$(step_file "$folder/plain" 4)" "$(step_file "$folder/${option%% *}" 4)"
done
train 2 "${state[@]}" --cutout 8 --steps 9 --check --resume "$(step_file "$folder/two" 4)"
expect_line "another padding is noted" '^note --crop-padding auto 4'
expect_line "another mixup is noted" '^note --mixup 0 0\.4'

ranks 2 train_cifar "${small[@]}" --mixup 5
expect_error "too much" 2 '--mixup 5 0 4'
ranks 2 train_cifar "${small[@]}" --cutout 25
expect_error "more than there is" 2 '--cutout 25 synthetic 24x24'
ranks 2 train_cifar "${small[@]}" --crop-padding some
expect_error "no padding" 2 '--crop-padding "some"'
ranks 2 train_mnist "${small[@]}" --crop-padding 2
expect_error "digits are not cropped" 2 '--crop-padding 2 digits'
ranks 1 train_mnist "${small[@]}" --mixup 0.2 --cutout 6 --steps 2
expect_line "digits are cut and mixed" '^augmented cutout.6 mixup.0\.2'
ranks 2 train_reuters "${small[@]}" --mixup 0.2
expect_error "words are not mixed" 2 '--mixup topics'
ranks 1 train_cifar --help-all
expect_line "they are explained" '--mixup NUMBER'
finish
