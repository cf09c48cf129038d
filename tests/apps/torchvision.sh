#!/usr/bin/env bash
# Networks with torchvision's names: a state_dict with random weights, as .safetensors or in the formats of torch.save(),
# initializes a run (--init), and torchvision computes the logits of its checkpoint, with exactly its names and shapes. It
# loads the file of export_model too. For two networks without dropout it also computes the gradients; a step of SGD shows
# those of Lockstep. They are about as close to the gradients in double as PyTorch's in fp32 are.
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
half = numpy.random.RandomState(1).randint(0, 256, (16, 96, 48, 3)).astype("u1")
for part in ("train", "test"):
    with h5py.File(f"{sys.argv[1]}/{part}.h5", "w") as file:
        file["images"] = numpy.concatenate([half, half[:, :, ::-1]], 2)  # mirroring does not change them
        file["labels"] = numpy.arange(16) % 10
END
cat >"$folder/weights.py" <<'END'
import sys
import h5py
import torch
import torchvision
from safetensors.torch import load_file
name, place, checkpoint, rate, scripts = sys.argv[1:]
sys.path.insert(0, scripts)
from lockstep import load_pytorch
from lockstep import networks
before = load_file(place + ".safetensors")
after = load_pytorch.to_torch(networks.read_checkpoint(checkpoint, "raw")[1])
trained = [key for key in before if "running" not in key and "num_batches" not in key]
exported = load_file(place + ".out.safetensors")
assert exported.keys() == after.keys() and all((exported[key] == after[key]).all() for key in after)
options = {"image_size": 96} if name == "vit_b_16" else {}
model = torchvision.models.get_model(name, weights=None, num_classes=10, **options)
model.load_state_dict(exported, strict=True)
if float(rate) < 1e-6:
    assert all(abs(before[key] - after[key]).max() < 1e-6 for key in trained)
    raise SystemExit
with h5py.File(place + ".logits.h5") as file:
    samples, labels = torch.from_numpy(file["samples"][()]).movedim(-1, 1), torch.from_numpy(file["labels"][()]).long()


def gradients(type):
    model.load_state_dict(before)
    model.to(type).train().zero_grad()
    torch.nn.functional.cross_entropy(model(samples.to(type)), labels).backward()
    return {key: parameter.grad.double() for key, parameter in model.named_parameters()}


single, exact = gradients(torch.float32), gradients(torch.float64)
for key, wanted in exact.items():
    mine = (before[key] - after[key]) / float(rate)
    apart, theirs = (float((gradient - wanted).norm() / wanted.norm()) for gradient in (mine, single[key]))
    print(f"{key}: {apart:.2g}, PyTorch in fp32 {theirs:.2g}")
    assert apart < max(0.002, 2 * theirs) or float(wanted.norm()) < 1e-5, (key, apart, theirs, float(wanted.norm()))
END
for model in resnet18 resnet34 resnet50 mobilenet_v3_large convnext_tiny vit_b_16; do
  place=$folder/$model
  init=$place.pth
  [[ $model != vit_b_16 ]] || init=$place.safetensors
  "$python" - "$model" "$place" <<'END'
import argparse
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
name, place = sys.argv[1:]
if name == "resnet18":
    torch.save({"model": state, "args": argparse.Namespace(lr=0.1), "epoch": 1}, place + ".pth")
elif name == "resnet34":
    halves = {key: value.bfloat16() if value.is_floating_point() else value for key, value in state.items()}
    state = {key: value.float() if value.is_floating_point() else value for key, value in halves.items()}
    torch.save(halves, place + ".pth")
elif name == "resnet50":
    channels_last = model.to(memory_format=torch.channels_last).state_dict()
    assert not channels_last["conv1.weight"].is_contiguous()
    torch.save({"module." + key: value for key, value in channels_last.items()}, place + ".pth")
elif name == "mobilenet_v3_large":
    torch.save(state, place + ".pth", _use_new_zipfile_serialization=False)
elif name == "convnext_tiny":
    torch.save(state, place + ".pth", pickle_protocol=5)
save_file({key: value.contiguous() for key, value in state.items()}, place + ".safetensors")
END
  rate=1e-12
  [[ $model != resnet50 && $model != vit_b_16 ]] || rate=0.1
  ranks 1 train_cifar --dataset hdf5 --data "$folder" --model "$model" --init "$init" --steps 1 \
    --global-batch 16 --crop-padding 0 --optimizer sgd --momentum 0 --weight-decay 0 --label-smoothing 0 --clip-norm 0 \
    --ema 0 --lr-schedule constant --lr $rate --warmup-epochs 0 --threads 1 --eval-every 0 --run "$place"
  expect "train $model" test "$code" = 0
  if grep -q "not used from" "$folder/out" "$folder/raw"; then complain "$model does not use all arrays"; fi
  ranks 1 evaluate --threads 1 --no-confusion --data "$folder" "$place" --logits "$place.logits.h5"
  expect "evaluate $model" test "$code" = 0
  run "$python" "$scripts/load_pytorch.py" "$(step_file "$place" 1)" --weights raw --torchvision --check "$place.logits.h5"
  expect "$model in torchvision" test "$code" = 0
  expect_line "all samples of $model" '^16 samples: logits'
  if [[ $model == mobilenet_v3_large ]]; then
    run "$python" "$scripts/load_pytorch.py" "$(step_file "$place" 1)" --save "$place.pt2"
    expect "save $model" test "$code" = 0
    run "$python" "$here/saved_module.py" "$place.pt2" "$(step_file "$place" 1)" "$place.logits.h5"
    expect "$model as a module: $(cat "$folder/out")" test "$code" = 0
  fi
  ranks 1 export_model "$place" "$place.out.safetensors"
  expect "export $model" test "$code" = 0
  run "$python" "$folder/weights.py" "$model" "$place" "$(step_file "$place" 1)" "$rate" "$scripts"
  expect "$model's weights or gradients" test "$code" = 0
done
finish
