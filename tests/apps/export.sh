#!/usr/bin/env bash
# export_model: ONNX files of all models give Lockstep's logits in onnxruntime, if Python has it; errors leave no file.
# usage: export.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
for with_onnx in ${LOCKSTEP_PYTHON:-} python3 none; do
  "$with_onnx" -c "import h5py, onnx, onnxruntime" 2>/dev/null && break
done
limit=200
export_model() { ranks 1 export_model "$@"; }

# --- files and errors ----------------------------------------------------------------------------------------------------
train 1 --steps 1 --run "$folder/crops"
train 1 --model resnet_small --steps 2 --ema 0.5 --run "$folder/run"
first=$(step_file "$folder/run" 2)
mkdir "$folder/files"
export_model "$folder/run" "$folder/files/small.onnx"
expect "ONNX" test "$code" = 0
expect_line "weights and step" 'small\.onnx resnet_small ema step.2'
export_model "$first" --weights raw "$folder/files/small.safetensors"
expect "safetensors" test "$code" = 0
train 1 --model resnet_small --steps 1 --lr 1e-12 --ema 0 --init "$folder/files/small.safetensors" --run "$folder/again"
expect "all weights come back" "$python" - "$first" "$(step_file "$folder/again" 1)" <<'END'
import sys
import h5py
with h5py.File(sys.argv[1]) as before, h5py.File(sys.argv[2]) as after:
    assert (before["parameters/conv/weights"][()] == after["parameters/conv/weights"][()]).all()
    assert before["parameters/block2/conv2/weights"][()].any()
END
cp "$first" "$folder/copy.h5"
export_model "$folder/copy.h5" "$folder/copy.h5"
expect_error "the checkpoint as output" 2 'copy.h5 .onnx'
ln -s "$folder/copy.h5" "$folder/files/link.onnx"
export_model "$folder/copy.h5" "$folder/files/link.onnx"
expect_error "a link to the checkpoint" 2 'link.onnx exists'
expect "the checkpoint is as before" cmp "$first" "$folder/copy.h5"
export_model "$first" "$folder/files/small.onnx"
expect_error "an existing file" 2 'small.onnx exists'
export_model "$first" "$folder/none/small.onnx"
expect_error "no such folder" 74 'none/small.onnx'
export_model "$first" "$folder/small.pt"
expect_error "another format" 2 'small.pt .safetensors'
export_model "$first" "$folder/files/other.onnx" --opset 3
expect_error "an old opset" 2 'opset 17'
ranks 1 train_mnist "${small[@]}" --model deep_mnist --steps 1 --ema 0 --run "$folder/large"
touch -d '2 days ago' "$folder/files/other.onnx.tmp-$(uname -n)-$(bash -c 'echo $$')-0123456789abcdef"  # of an export that was killed
run bash -c "ulimit -f 6000; trap '' XFSZ; exec '$build/export_model' '$folder/large' '$folder/files/other.onnx'"
expect_error "a full disk" 74 'other.onnx too.large'
ranks 2 export_model "$first" "$folder/files/other.onnx"
expect_error "several ranks" 2 'mpirun'
truncate -s -3000 "$folder/copy.h5"
export_model "$folder/copy.h5" "$folder/files/other.onnx"
expect_error "a damaged checkpoint" 1 'copy.h5'
expect_files "nothing is half written" "$folder/files" small.onnx small.safetensors link.onnx

# --- numbers -------------------------------------------------------------------------------------------------------------
if [[ $with_onnx == none ]]; then
  echo "not compared: no python has onnxruntime, onnx and h5py (pip install onnxruntime onnx h5py)"
  finish
  exit
fi
compare() { run "$with_onnx" "$here/export.py" "$@"; }
mkdir "$folder/layers"
EXPORT_DIRECTORY=$folder/layers run "$build/tests/export" --gtest_filter=Export.EveryKind*
compare layers "$folder/layers"
expect "all kinds of layers: $(cat "$folder/out")" test "$code" = 0

data=$folder/data
small_data "$data"
declare -A sets=([deep_mnist]=mnist [keras]=mnist [tower]=mnist [reuters]=reuters [reuters_as_published]=reuters [text_cnn]=reuters
                 [tutorial]=small [resnet_small]=small [airbench94]=whole [resnet20]=small [resnet56]=small [resnet18_cifar]=small)
run "$build/train_cifar" --list
models=$(awk '/^[a-z]/ { on = /^models/ } on && /^  [a-z]/ { print $1 }' "$folder/out")
expect "all models" test "$(wc -w <<<"$models")" -ge 17
for model in $models; do
  set=${sets[$model]:-photos} program=train_cifar place=$folder/$model options=(--dataset hdf5)
  [[ $set != mnist && $set != reuters ]] || program=train_$set options=()
  ranks 1 "$program" "${small[@]}" "${options[@]}" --data "$data/$set" --model "$model" --steps 1 --lr 0.001 --ema 0 \
    --run "$place"
  expect "train $model" test "$code" = 0
  "$python" "$here/export.py" perturb "$(step_file "$place" 1)"
  ranks 1 evaluate --threads 1 --no-confusion --data "$data/$set" "$place" --logits "$place/logits.h5"
  expect "evaluate $model" test "$code" = 0
  export_model "$place" "$place/$model.onnx"
  expect "export $model" test "$code" = 0
  compare logits "$place/$model.onnx" "$place/logits.h5"
  expect "$model in onnxruntime: $(cat "$folder/out")" test "$code" = 0
  rm -r "$place"
done

# Crops are cut and standardised within the graph.
"$python" -c "
import os, struct, sys
pixels = os.urandom(32 * 32 * 3)
open(sys.argv[1], 'wb').write(struct.pack('<2sIHHIIiiHHIIiiII', b'BM', 54 + len(pixels), 0, 0, 54, 40, 32, 32, 1, 24, 0,
                                          len(pixels), 0, 0, 0, 0) + pixels)" "$folder/image.bmp"
ranks 1 classify "$folder/crops" --top 10 --json "$folder/image.bmp"
line=$(cat "$folder/out")
export_model "$folder/crops" "$folder/crops.onnx" --batch 1 --opset 21
compare classes "$folder/crops.onnx" "$folder/image.bmp" "$line"
expect "crops in onnxruntime: $(cat "$folder/out")" test "$code" = 0
finish
