#!/usr/bin/env bash
# Checkpoints that another program has changed: the error names the change. Skipped without h5py.
# usage: edited_checkpoint.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py

good=$folder/good
train 2 --steps 4 --checkpoint-every 2 --run "$good"

# The copy of a good checkpoint in $folder/bad is changed by the lines of Python on stdin.
edit() {
  rm -rf "$folder/bad" && mkdir -p "$folder/bad/checkpoints"
  cp "$(step_file "$good" 4)" "$folder/bad/checkpoints"
  { printf 'import sys\nimport h5py\nwith h5py.File(sys.argv[1], "r+") as file:\n'; sed 's/^/    /'; } >"$folder/edit.py"
  expect "the checkpoint is changed" "$python" "$folder/edit.py" "$(step_file "$folder/bad" 4)"
}
refused() {  # CODE PATTERN: after such a change
  edit
  ranks 2 train_cifar "${small[@]}" --steps 6 --run "$folder/bad"
  expect_error "a checkpoint that was changed" "$1" "^train_cifar: $2"
}

edit_fact() {  # NAME JSON: the copy in $folder/bad has this fact
  edit <<<'pass'
  expect "the checkpoint is changed" "$python" "$here/facts.py" "$(step_file "$folder/bad" 4)" "$@"
}
refused 1 'step-0000000004.h5 model parameters/conv2/biases' \
  <<<'file.move("parameters/conv2/biases", "parameters/conv2/offsets")'
# Evaluation on other data is allowed, with a note.
cp "$(step_file "$good" 4)" "$folder/other.h5"
expect "the checkpoint is changed" "$python" "$here/facts.py" "$folder/other.h5" files '"images = another"'
launch 1 evaluate --threads 1 "$folder/other.h5"
await 60 lines_with "$folder/raw" '^evaluate: note /other.h5 images'
kill -TERM "$(pid_of_rank 0)" 2>/dev/null
collect
# A number that is not finite is blamed on the file, not on the learning rate.
refused 1 'step-0000000004.h5 ema finite' \
  <<<'file["ema/conv1/biases"][0] = float("inf")'
expect_files "nothing is saved" "$folder/bad/checkpoints" step-0000000004.h5
edit <<<'file["parameters/conv1/biases"][0] = float("nan")'
ranks 2 train_cifar "${small[@]}" --steps 6 --init "$(step_file "$folder/bad" 4)"
expect_error "--init with NaN" 1 '^train_cifar: step-0000000004.h5 weights finite'

# A checkpoint without a text that training programs write.
for text in class_names sample_format files; do
  edit_fact "$text" none
  ranks 2 evaluate --threads 1 "$folder/bad"
  expect_error "a checkpoint without its $text" 1 "^evaluate: step-0000000004.h5 name $text another"
done
# Facts of another kind, whole or in part.
while read -r fact value; do
  edit_fact "$fact" "$value"
  ranks 2 evaluate --threads 1 "$(step_file "$folder/bad" 4)"
  expect_error "$fact $value" 1 "^evaluate: step-0000000004.h5 damaged"
done <<'END'
dataset 3
class_names null
sample_format {"kind":3}
normalisation 3
END
edit_fact model '["tutorial"]'
ranks 2 train_cifar "${small[@]}" --steps 6 --run "$folder/bad"
expect_error "a resume" 1 '^train_cifar: step-0000000004.h5 damaged model'
finish
