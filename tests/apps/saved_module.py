"""Compares a module that load_pytorch.py has saved with Lockstep: saved_module.py MODULE CHECKPOINT LOGITS. It reads pixels from
0 to 1, and another number of samples than it was saved with."""
import json
import sys

import h5py
import numpy
import torch

path, checkpoint, logits = sys.argv[1:]
module = torch.export.load(path).module() if path.endswith(".pt2") else torch.jit.load(path).eval()
with h5py.File(checkpoint, "r", locking=False) as file:
    normalisation = json.loads(file.attrs["facts"]).get("normalisation")
with h5py.File(logits, "r", locking=False) as file:
    samples, wanted = file["samples"][()], file["logits"][()]
if normalisation:
    pixels = numpy.rint(samples * normalisation["deviation"] + normalisation["mean"])
    x = torch.from_numpy(pixels / 255).float().movedim(-1, 1)
else:
    x = torch.from_numpy(samples).long()
for count in (1, len(wanted)):
    with torch.no_grad():
        difference = abs(module(x[:count]).numpy() - wanted[:count]).max() / abs(wanted).max()
    print(f"{count} samples, difference {difference:.2g}")
    assert difference < 1e-4
