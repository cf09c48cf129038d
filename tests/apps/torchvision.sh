#!/usr/bin/env bash
# Networks with torchvision's names: a state_dict with random weights initializes a run (--init), and torchvision computes the
# logits of its checkpoint. Names and shapes match exactly.
# usage: torchvision.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
scripts=$here/../../scripts
for python in ${LOCKSTEP_PYTHON:-} python3 none; do
  "$python" -c "import h5py, safetensors, torchvision" 2>/dev/null && break
done
[[ $python != none ]] || skip "no python has torchvision, safetensors and h5py (pip install torchvision safetensors h5py)"
limit=200

"$python" - "$folder" <<'END'
import sys
import h5py
import numpy
random = numpy.random.RandomState(1)
for part, count in (("train", 16), ("test", 16)):
    with h5py.File(f"{sys.argv[1]}/{part}.h5", "w") as file:
        file["images"] = random.randint(0, 256, (count, 96, 96, 3)).astype("u1")
        file["labels"] = numpy.arange(count) % 10
END
for model in resnet18 resnet34 resnet50 mobilenet_v3_large convnext_tiny vit_b_16; do
  place=$folder/$model
  "$python" - "$model" "$place.safetensors" <<'END'
import sys
import torch
import torchvision
from safetensors.torch import save_file
torch.manual_seed(1)
options = {"image_size": 96} if sys.argv[1] == "vit_b_16" else {}
model = torchvision.models.get_model(sys.argv[1], weights=None, num_classes=10, **options)
state = model.state_dict()
for name, value in state.items():
    if value.dtype != torch.float32:
        continue
    if name.endswith("running_var") or value.ndim == 1 and name.endswith("weight"):
        value.uniform_(0.5, 1.5)
    elif value.ndim == 1 or not value.any():
        value.normal_(0, 0.1)
    elif name.endswith("layer_scale"):
        value.uniform_(0.1, 0.3)
save_file(state, sys.argv[2])
END
  ranks 1 train_cifar --dataset hdf5 --data "$folder" --model "$model" --init "$place.safetensors" --steps 1 --batch 8 \
    --lr 1e-12 --warmup-epochs 0 --threads 1 --eval-every 0 --checkpoint-dir "$place"
  expect "train $model" test "$code" = 0
  if grep -q "not used from" "$folder/out" "$folder/raw"; then complain "$model does not use all arrays"; fi
  ranks 1 evaluate --threads 1 --no-confusion --data "$folder" "$place" --logits "$place.logits.h5"
  expect "evaluate $model" test "$code" = 0
  run "$python" "$scripts/load_pytorch.py" "$(step_file "$place" 1)" --weights raw --torchvision --check "$place.logits.h5"
  expect "$model in torchvision" test "$code" = 0
  expect_line "all samples of $model" '^16 samples: logits'
  run "$python" - "$(step_file "$place" 1)" "$place.safetensors" "$scripts" <<'END'
import sys
import h5py
from safetensors.torch import load_file
sys.path.insert(0, sys.argv[3])
import load_pytorch
import networks
state = load_pytorch.to_torch(networks.read_checkpoint(sys.argv[1], "raw")[1])
for name, value in load_file(sys.argv[2]).items():
    if "running" not in name and "num_batches" not in name:
        assert abs(value - state[name]).max() < 1e-6, name
END
  expect "$model has the weights of the file" test "$code" = 0
done
finish
