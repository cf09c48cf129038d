#!/usr/bin/env bash
# Checkpoints in Keras and PyTorch, if they are installed: scripts/load_keras.py and load_pytorch.py compute Lockstep's logits
# for each network, and a state_dict becomes a checkpoint again.
# usage: load_elsewhere.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
scripts=$here/../../scripts
pythons=()
for package in keras torch; do
  for python in ${LOCKSTEP_PYTHON:-} python3 /usr/bin/python3; do
    if "$python" -c "import h5py, $package" 2>/dev/null; then pythons+=("$package $python"); break; fi
  done
done
((${#pythons[@]} > 0)) || skip "no python has keras or torch with h5py (pip install keras tensorflow h5py, or torch)"
need_h5py
limit=200

data=$folder/data
small_data "$data"

# PROGRAM MODEL OPTIONS...: a checkpoint and its logits, in every framework.
same_logits() {
  local program=$1 model=$2 place entry
  place=$folder/$2
  ranks 1 "$program" "${small[@]}" --model "$model" --steps 2 --ema 0.5 --lr 0.001 --run "$place" "${@:3}"
  expect "train $model" test "$code" = 0
  local options=("${@:3}") i where=
  for ((i = 0; i < ${#options[@]}; i++)); do [[ ${options[i]} != --data ]] || where=${options[i + 1]}; done
  ranks 1 evaluate --threads 1 --no-confusion --data "$where" "$place" --logits "$place.logits.h5"
  expect "evaluate $model" test "$code" = 0
  for entry in "${pythons[@]}"; do
    run "${entry#* }" "$scripts/load_${names[${entry% *}]}.py" "$(step_file "$place" 2)" --check "$place.logits.h5"
    expect "$model in ${entry% *}" test "$code" = 0
    expect_line "all samples of $model" '^100 samples logits'
    [[ $entry == torch* && $model == @(airbench94|reuters) ]] || continue
    run "${entry#* }" "$scripts/load_pytorch.py" "$(step_file "$place" 2)" --save "$place.pt"
    expect "$model as a module" test "$code" = 0
    run "${entry#* }" "$here/saved_module.py" "$place.pt" "$(step_file "$place" 2)" "$place.logits.h5"
    expect "its logits: $(cat "$folder/out")" test "$code" = 0
  done
}
declare -A names=([keras]=keras [torch]=pytorch)
export KERAS_BACKEND=${KERAS_BACKEND:-$(for entry in "${pythons[@]}"; do
  [[ $entry != keras* ]] || for backend in tensorflow jax torch; do
    if "${entry#* }" -c "import $backend" 2>/dev/null; then echo $backend; break; fi; done; done)}
for model in deep_mnist keras tower; do same_logits train_mnist $model --data "$data/mnist"; done
for model in tutorial resnet_small resnet20 resnet56 resnet18_cifar; do
  same_logits train_cifar $model --dataset hdf5 --data "$data/small"
done
same_logits train_cifar airbench94 --dataset hdf5 --data "$data/whole"
for model in reuters reuters_as_published text_cnn; do same_logits train_reuters $model --data "$data/reuters"; done

# The other way.
for entry in "${pythons[@]}"; do
  [[ $entry == torch* ]] || continue
  first=$(step_file "$folder/resnet20" 2)
  run "${entry#* }" "$scripts/load_pytorch.py" "$first" --weights raw --save-state "$folder/weights.pt"
  expect "a state_dict" test "$code" = 0
  run "${entry#* }" "$scripts/load_pytorch.py" "$folder/weights.pt" --model resnet20 --to-checkpoint "$folder/back.h5"
  expect "a checkpoint of it" test "$code" = 0
  expect "the same weights" "$python" - "$first" "$folder/back.h5" <<'END'
import sys
import h5py
with h5py.File(sys.argv[1]) as first, h5py.File(sys.argv[2]) as back:
    names = []
    first["parameters"].visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
    assert len(names) > 60 and all((first["parameters"][name][()] == back["parameters"][name][()]).all() for name in names)
END
  train 1 --dataset hdf5 --data "$data/small" --model resnet20 --steps 1 --init "$folder/back.h5"
  run "${entry#* }" "$scripts/load_pytorch.py" "$first" --save "$folder/none/x.pt"
  expect_error "a folder that is missing" 1 'none/x.pt No.such.file'
  run "${entry#* }" "$scripts/load_pytorch.py" "$folder/resnet20" --save "$folder/x.pt"
  expect_error "a folder instead of a file" 1 'resnet20 regular.file'

  # A file of layers is another network than the model of its name.
  printf '%s\n' 'sample = [24, 24, 3]' 'layers = [{type = "dense", features = "$classes"}]' >"$folder/resnet20.toml"
  train 1 --model "$folder/resnet20.toml" --steps 1 --run "$folder/own"
  own=$(step_file "$folder/own" 1)
  run "${entry#* }" "$scripts/load_pytorch.py" "$own" --save "$folder/x.pt"
  expect_error "a file of layers" 1 'resnet20.toml export_model'
  run "${entry#* }" "$scripts/load_pytorch.py" "$own" --save-state "$folder/own.pt"
  expect "its state_dict" test "$code:$(find "$folder" -name 'x.pt*' -o -name 'tmp-*')" = 0:
done
finish
