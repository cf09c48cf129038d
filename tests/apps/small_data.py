"""Writes data sets of a hundred test samples or fewer, so that an evaluation is one batch: small_data.py FOLDER. mnist and
reuters have the files of these sets; small, whole and photos have 16x16, 32x32 and 64x48 images in HDF5."""
import os
import struct
import sys

import h5py
import numpy

folder = sys.argv[1]
random = numpy.random.RandomState(1)
for name in ("mnist", "small", "whole", "photos", "reuters"):
    os.makedirs(f"{folder}/{name}")
for part, count in (("train", 200), ("t10k", 100)):
    with open(f"{folder}/mnist/{part}-images-idx3-ubyte", "wb") as file:
        file.write(struct.pack(">4I", 2051, count, 28, 28) + random.bytes(784 * count))
    with open(f"{folder}/mnist/{part}-labels-idx1-ubyte", "wb") as file:
        file.write(struct.pack(">2I", 2049, count) + bytes(range(10)) * (count // 10))
for part, count, name, height, width in (("train", 200, "small", 16, 16), ("test", 100, "small", 16, 16),
                                         ("train", 32, "whole", 32, 32), ("test", 100, "whole", 32, 32),
                                         ("train", 16, "photos", 64, 48), ("test", 20, "photos", 64, 48)):
    with h5py.File(f"{folder}/{name}/{part}.h5", "w") as file:
        file["images"] = random.randint(0, 256, (count, height, width, 3)).astype("u1")
        file["labels"] = numpy.arange(count) % 10
with h5py.File(f"{folder}/reuters/reuters.h5", "w") as file:
    file["values"] = random.randint(0, 30982, 300 * 100).astype("i4")
    file["offsets"] = numpy.arange(0, 30001, 100).astype("i4")
    file["labels"] = (numpy.arange(300) % 46).astype("i4")
    file.attrs["train"] = 200
