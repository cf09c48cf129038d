#!/usr/bin/env python3
"""usage: print_weights.py CHECKPOINT

Prints the name, shape, mean and standard deviation of every array in a checkpoint (step-NNNNNNNNNN.h5)."""
import os
import sys

from networks import printable


def show(name, item):
    if isinstance(item, h5py.Dataset):
        if item.dtype.kind not in "biuf" or not item.size:
            raise ValueError(f"{printable(name)} contains no numbers")
        print(f"{printable(name):40} {str(item.shape):20} mean {item[()].mean():+.6f}  std {item[()].std():.6f}")


def fail(problem, code):
    print(f"print_weights.py: {problem}", file=sys.stderr)
    sys.exit(code)


if "-h" in sys.argv or "--help" in sys.argv:
    print(__doc__)
    sys.exit()
if len(sys.argv) != 2:
    fail("exactly one checkpoint is needed. Pass a file such as step-0000001000.h5.", 2)
try:
    import h5py
except ImportError:
    fail("the Python package h5py is missing. Install python3-h5py with apt, or h5py with pip.", 1)
try:
    if os.path.exists(sys.argv[1]) and not os.path.isfile(sys.argv[1]):
        raise OSError("not a regular file")  # opening a named pipe would wait for a writer
    with h5py.File(sys.argv[1], "r", locking=False) as file:
        print({name: file.attrs[name] for name in ("step", "epoch", "seed")})
        file.visititems(show)
    sys.stdout.flush()
except BrokenPipeError:  # the reader left early, as head does; Python must not flush into the pipe again
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
except (OSError, KeyError, RuntimeError, ValueError) as error:
    fail(f"cannot print {sys.argv[1]} ({str(error).splitlines()[0]}). Pass a checkpoint (step-NNNNNNNNNN.h5).", 1)
