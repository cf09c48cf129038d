#!/usr/bin/env bash
# Networks of timm with names of their own: a state_dict with random weights initializes a run (--init), and the network has
# timm's logits. timm's mobilenet has another epsilon of batch norm.
# usage: timm.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
for python in ${LOCKSTEP_PYTHON:-} python3 none; do
  "$python" -c "import h5py, safetensors, timm" 2>/dev/null && break
done
[[ $python != none ]] || skip "no python has timm, safetensors and h5py (pip install timm safetensors h5py)"
limit=200

small_data "$folder/data"
for names in mobilenet_v3_large:mobilenetv3_large_100 convnext_tiny:convnext_tiny vit_b_16:vit_base_patch16_224; do
  model=${names%:*} timm=${names#*:} place=$folder/${names%:*}
  run "$python" "$here/timm_names.py" write "$timm" "$place.safetensors"
  ranks 1 train_cifar "${small[@]}" --dataset hdf5 --data "$folder/data/photos" --model "$model" --init "$place.safetensors" \
    --steps 1 --lr 1e-12 --weight-decay 0 --optimizer sgd --momentum 0 --ema 0 --warmup-epochs 0 --run "$place"
  expect "train $model" test "$code" = 0
  if grep -q "not used from" "$folder/out" "$folder/raw"; then complain "$model does not use all arrays"; fi
  ranks 1 export_model "$place" "$place/out.safetensors"
  expect "restore $model" "$python" "$here/timm_names.py" restore "$timm" "$place.safetensors" "$(step_file "$place" 1)" "$place/out.safetensors"
  ranks 1 evaluate --threads 1 --no-confusion --data "$folder/data/photos" "$place" --logits "$place/logits.h5"
  expect "evaluate $model" test "$code" = 0
  run "$python" "$here/timm_names.py" compare "$timm" "$place.safetensors" "$place/logits.h5"
  expect "$model in timm: $(cat "$folder/out")" test "$code" = 0
  rm -r "$place"
done
finish
