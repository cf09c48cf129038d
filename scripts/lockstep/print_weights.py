"""usage: print_weights.py CHECKPOINT

Prints the name, shape, mean and standard deviation of every array in a checkpoint (step-NNNNNNNNNN.h5)."""
import os
import sys

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
    try:
        if "-h" in sys.argv or "--help" in sys.argv:
            print(__doc__, flush=True)
            return
        if len(sys.argv) != 2:
            fail("exactly one checkpoint is needed. Pass a file such as step-0000001000.h5.", 2)
        print_arrays(sys.argv[1])
    except ImportError:
        fail("the Python package h5py is missing. Install python3-h5py with apt, or h5py with pip.", 1)
    except BrokenPipeError:  # the reader left early, as head does; Python must not flush into the pipe again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, KeyError, RuntimeError, ValueError) as error:
        fail(f"cannot print {sys.argv[1]} ({str(error).splitlines()[0]}). Pass a checkpoint (step-NNNNNNNNNN.h5).", 1)


if __name__ == "__main__":
    main()
