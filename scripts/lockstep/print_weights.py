"""Prints the name, shape, mean and standard deviation of every array in a checkpoint."""
import argparse
import os
import sys

from lockstep import networks
from lockstep.networks import open_hdf5, printable


def fail(problem, code):
    print(f"print_weights.py: {problem}", file=sys.stderr)
    sys.exit(code)


def print_arrays(path):
    import h5py

    def show(name, item):
        if isinstance(item, h5py.Dataset):
            if item.dtype.kind not in "biuf" or not item.size:
                raise ValueError(f"{printable(name)} contains no numbers")
            print(f"{printable(name):40} {str(item.shape):20} mean {item[()].mean():+.6f}  std {item[()].std():.6f}")

    with open_hdf5(path) as file:
        print(", ".join(f"{name} {file.attrs[name]}" for name in ("step", "epoch", "seed")))
        file.visititems(show)
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", metavar="RUN", help="name of a run in runs/, folder of a run, or file of a checkpoint")
    networks.add_which_option(parser)
    parser.error = lambda problem: fail(f"{problem}. Pass one run, or the file of a checkpoint.", 2)  # one line
    arguments = parser.parse_args()
    try:
        print_arrays(networks.find_checkpoint(arguments.run, arguments.which))
    except ImportError:
        fail("the Python package h5py is missing. Install python3-h5py with apt, or h5py with pip.", 1)
    except BrokenPipeError:  # the reader left early, as head does; Python must not flush into the pipe again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, KeyError, RuntimeError, ValueError) as error:
        fail(f"cannot print {arguments.run} ({str(error).splitlines()[0]}). Pass a checkpoint (step-NNNNNNNNNN.h5).", 1)


if __name__ == "__main__":
    main()
