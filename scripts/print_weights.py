#!/usr/bin/env python3
"""print_weights.py step-0000001000.h5: the name, shape, mean and standard deviation of every array in a checkpoint"""
import sys
import h5py  # apt install python3-h5py, or pip install h5py
from networks import printable

def show(name, item):
    if isinstance(item, h5py.Dataset):
        print(f"{printable(name):40} {str(item.shape):20} mean {item[()].mean():+.6f}  std {item[()].std():.6f}")

with h5py.File(sys.argv[1], "r", locking=False) as file:
    print({name: file.attrs[name] for name in ("step", "epoch", "seed")})
    file.visititems(show)
