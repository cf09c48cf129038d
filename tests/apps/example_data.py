"""Writes the data that examples and pages name: example_data.py FOLDER PHOTOS DIGITS TESTED. FOLDER/photos has cats and dogs
of one colour each in BMP files, PHOTOS of each class for training. FOLDER/labels.csv names them. FOLDER/data/mnist has DIGITS training and TESTED test
images of zeros."""
import os
import struct
import sys

os.chdir(sys.argv[1])
photos, digits, tested = map(int, sys.argv[2:])
rows = ["file,label"]
for part, count in ("train", photos), ("test", 4):
    for name, pixel in ("cat", b"\x20\x10\xd0"), ("dog", b"\xd0\x20\x10"):
        os.makedirs(f"photos/{part}/{name}")
        for i in range(count):
            width, height = 40 + 4 * i, 48
            data = pixel * width * height
            head = struct.pack("<2sIHHIIiiHHIIiiII", b"BM", 54 + len(data), 0, 0, 54, 40, width, height, 1, 24, 0, len(data), 0, 0, 0, 0)
            with open(f"photos/{part}/{name}/{i}.bmp", "wb") as file:
                file.write(head + data)
            rows.append(f"{part}/{name}/{i}.bmp,{name}")
with open("labels.csv", "w") as file:
    file.write("\n".join(rows))
os.makedirs("data/mnist")
for part, count in ("train", digits), ("t10k", tested):
    with open(f"data/mnist/{part}-images-idx3-ubyte", "wb") as file:
        file.write(struct.pack(">4I", 0x803, count, 28, 28) + bytes(784 * count))
    with open(f"data/mnist/{part}-labels-idx1-ubyte", "wb") as file:
        file.write(struct.pack(">2I", 0x801, count) + bytes(i % 10 for i in range(count)))
