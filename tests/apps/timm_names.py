"""Networks of timm with names of their own, for timm.sh.

  write MODEL FILE                          random weights as .safetensors
  restore MODEL FILE CHECKPOINT EXPORTED    undoes what a step has changed: means and variances of batch norm
  compare MODEL FILE LOGITS                 timm's logits with those of evaluate --logits
"""
import json
import sys

import h5py
import timm
import torch
from safetensors.torch import load_file, save_file


def network(name):
    return timm.create_model(name, num_classes=10, **({"img_size": (64, 48)} if name.startswith("vit") else {}))


def write(name, path):
    torch.manual_seed(1)
    state = network(name).state_dict()
    for key, value in state.items():
        if key.endswith("gamma"):
            value.uniform_(0.1, 0.3)
        elif key.endswith("running_var") or value.ndim == 1 and key.endswith("weight"):
            value.uniform_(0.5, 1.5)
        elif value.dtype == torch.float32 and (value.ndim == 1 or not value.any()):
            value.normal_(0, 0.1)
    save_file(state, path)


def restore(name, path, checkpoint, exported):
    """Both files have the layers in the order of forward."""
    weights = load_file(path)
    theirs = [key for key in network(name).state_dict() if "running_" in key]
    with open(exported, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    with h5py.File(checkpoint, "r+") as file:
        items = {}
        file["parameters"].visititems(lambda key, item: items.update({key.replace("/", "."): item}))
        for own, part in (("mean", "running_mean"), ("variance", "running_var")):
            names = [key.removesuffix(part) + own for key in header if key.endswith(part)]
            values = [weights[key].numpy() for key in theirs if key.endswith(part)]
            assert len(names) == len(values)
            for key, value in zip(names, values):
                items[key][...] = value


def compare(name, path, logits):
    model = network(name)
    model.load_state_dict(load_file(path))
    with h5py.File(logits) as file, torch.no_grad():
        samples, wanted = torch.from_numpy(file["samples"][()]).movedim(-1, 1), torch.from_numpy(file["logits"][()])
        difference = float((model.eval()(samples) - wanted).abs().max() / wanted.abs().max())
    print(f"{name}: {len(wanted)} samples, difference {difference:.2g}")
    assert difference < 1e-4


globals()[sys.argv[1]](*sys.argv[2:])
