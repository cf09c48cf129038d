"""Exit 0 if two checkpoints hold the same arrays, bit for bit; otherwise names what differs.

usage: compare_checkpoints.py FILE FILE
"""
import sys

import h5py
import numpy

SECTIONS = ("parameters/", "optimizer/", "ema/", "wire/")


def arrays(path):
    """All data sets of the state, by name, as bytes that two NaN compare equal in."""
    found = {}

    def visit(name, item):
        if isinstance(item, h5py.Dataset) and name.startswith(SECTIONS):
            found[name] = item[()]

    try:
        with h5py.File(path, "r") as file:
            file.visititems(visit)
            position = [int(file.attrs[name]) for name in ("step", "samples", "epoch", "seed")]
    except OSError as error:
        sys.exit("%s: %s" % (path, error))
    return found, position


def main():
    (one, place), (other, other_place) = arrays(sys.argv[1]), arrays(sys.argv[2])
    if not one:
        sys.exit("%s holds no arrays" % sys.argv[1])
    if place != other_place:
        sys.exit("positions differ: %s and %s" % (place, other_place))
    if one.keys() != other.keys():
        sys.exit("only in one of them: %s" % ", ".join(sorted(one.keys() ^ other.keys())))
    for name, values in one.items():
        if values.shape != other[name].shape or values.tobytes() != other[name].tobytes():
            differences = numpy.abs(values - other[name])
            sys.exit("%s differs at %d of %d places, by up to %g"
                     % (name, numpy.count_nonzero(differences), values.size, differences.max()))


main()
