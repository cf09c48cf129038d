#!/usr/bin/env bash
# Names of files and folders that do not exist: each program names them in one line, and blames neither damage nor permissions.
# usage: missing_names.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$folder" || exit 1
none=nowhere/none

train 1 --model resnet_small --steps 1 --run "$folder/run"
declare -A tried=()
missing() {  # PROGRAM OPTION...
  tried[$1]=1
  run "$build/$1" "${@:2}"
  checks=$((checks + 1))
  if [[ $code == 0 || $(wc -l <err) != 1 ]] || ! lines_with err "^$1: $none (No.such.file|not.exist|no.run)" >/dev/null; then
    complain "$1 ${*:2}: exit code $code"
  fi
  expect "$1 ${*:2}: no wrong cause" test "$(grep -cE 'damaged|Restore|create|writ' err)" = 0
}
small_run=(--steps 1 --threads 1 --no-run)
for program in train_cifar train_images train_mnist train_reuters train_texts; do
  missing $program "${small_run[@]}" --data $none
done
for dataset in folder packed; do missing train_cifar "${small_run[@]}" --dataset $dataset --image-size 32 --data $none; done
for dataset in folder hdf5 cifar10_32; do missing train_cifar "${small_run[@]}" --dataset $dataset --data $none; done
for option in config model; do missing train_cifar "${small_run[@]}" --$option $none.toml; done
for ending in .h5 .safetensors .pth ''; do missing train_cifar "${small_run[@]}" --init $none$ending; done
missing train_cifar "${small_run[@]}" --resume $none.h5
missing evaluate $none
missing evaluate $none.h5
missing classify $none x.jpg
missing export_model $none x.onnx
missing pack_images $none x.h5
missing compare_runs $none nowhere/other
missing report_runs $none
missing verify_run $none
missing lockstep_run $none
missing classify "$folder/run" $none.jpg
for program in "$here"/../../apps/*.cc; do
  name=$(basename "$program" .cc)
  expect "$name is tried" test "${tried[$name]:-0}" = 1
done
expect_files "nothing is made" "$folder" small.toml out raw err run "$(cd "$folder" && find run/*)"
finish
