#!/usr/bin/env python3
"""Converts arrays of images to train.h5 and test.h5 for --dataset hdf5: convert_images.py FROM FOLDER

FROM is one file with both parts, or a file or a folder of training images whose test images lie beside it:
  .npz   x_train, y_train, x_test, y_test as of Keras; train_images, train_labels, ... as of MedMNIST;
         k49-train-imgs.npz and its three neighbours as of Kuzushiji-49
  .csv   a label and the pixels of a square image in each line, as of Kaggle's MNIST: mnist_train.csv, mnist_test.csv
  .mat   train_32x32.mat, test_32x32.mat of SVHN
  CIFAR-100's binary version: cifar-100-binary.tar.gz, its folder, or train.bin
  STL-10's binary version: its folder stl10_binary, or train_X.bin
Then train: train_cifar --dataset hdf5 --data FOLDER

Nothing in the files is executed. Needs numpy and h5py, and scipy for .mat:
  sudo apt install python3-h5py python3-scipy   (or: pip install h5py scipy)
"""
import io
import os
import sys
import tarfile

PARTS = ("train", "test")


class Unfit(Exception):
    """FROM cannot be converted; the text is the reason."""


def sibling(path, part):
    """The file of `part` beside `path`, whose name contains "train"."""
    folder, name = os.path.split(path)
    other = os.path.join(folder, name.replace("train", part).replace("Train", part.title()))
    if not os.path.exists(other):
        raise Unfit(f"{other} does not exist. Put the {part} images there")
    return other


def from_npz(path, numpy):
    with numpy.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    for images, labels in (("x_{}", "y_{}"), ("{}_images", "{}_labels")):
        if all(name.format(part) in arrays for name in (images, labels) for part in PARTS):
            return {part: (arrays[images.format(part)], arrays[labels.format(part)]) for part in PARTS}
    if "imgs" not in os.path.basename(path):
        raise Unfit(f"it contains {', '.join(arrays)}, not x_train, y_train, x_test and y_test")

    def first(name):
        with numpy.load(name, allow_pickle=False) as file:
            return file[file.files[0]]
    images = path.replace("test-imgs", "train-imgs")
    return {part: (first(sibling(images, part)), first(sibling(images.replace("imgs", "labels"), part))) for part in PARTS}


def from_csv(path, numpy):
    def read(name):
        with open(name, encoding="utf-8-sig") as file:
            first = file.readline()
            header = not first.split(",")[0].strip().lstrip("-").isdigit()
            rows = numpy.loadtxt(file if header else io.StringIO(first + file.read()), delimiter=",", dtype=numpy.int64, ndmin=2)
        side = int(round((rows.shape[1] - 1) ** 0.5))
        if side * side != rows.shape[1] - 1:
            raise Unfit(f"{name} has {rows.shape[1]} numbers in a line, not a label and the pixels of a square image")
        return rows[:, 1:].reshape(-1, side, side), rows[:, 0]
    return {part: read(sibling(path, part)) for part in PARTS}


def from_mat(path, numpy):
    from scipy.io import loadmat

    def read(name):
        arrays = loadmat(name)
        if "X" not in arrays or "y" not in arrays:
            raise Unfit(f"{name} has no arrays X and y, as SVHN's files have")
        labels = arrays["y"].reshape(-1)
        return numpy.moveaxis(arrays["X"], -1, 0), labels % 10 if labels.max() == 10 else labels  # 10 stands for 0
    return {part: read(sibling(path, part)) for part in PARTS}


def from_cifar100(path, numpy):
    def parts():
        if path.endswith(".tar.gz"):
            with tarfile.open(path) as archive:
                return [archive.extractfile(f"cifar-100-binary/{part}.bin").read() for part in PARTS]
        folder = path if os.path.isdir(path) else os.path.dirname(path)
        return [open(os.path.join(folder, f"{part}.bin"), "rb").read() for part in PARTS]

    def arrays(data):
        if len(data) % 3074:
            raise Unfit(f"{len(data)} bytes are no whole records of CIFAR-100's binary version")
        records = numpy.frombuffer(data, numpy.uint8).reshape(-1, 3074)  # coarse label, fine label, three planes
        return numpy.moveaxis(records[:, 2:].reshape(-1, 3, 32, 32), 1, -1), records[:, 1]
    return dict(zip(PARTS, map(arrays, parts())))


def from_stl10(path, numpy):
    folder = path if os.path.isdir(path) else os.path.dirname(path)

    def read(part):
        images = numpy.fromfile(os.path.join(folder, f"{part}_X.bin"), numpy.uint8).reshape(-1, 3, 96, 96)
        labels = numpy.fromfile(os.path.join(folder, f"{part}_y.bin"), numpy.uint8)
        return images.transpose(0, 3, 2, 1), labels - 1  # columns come first, and labels begin with 1
    return {part: read(part) for part in PARTS}


def reader_of(path):
    name = os.path.basename(os.path.normpath(path)).lower()
    for ending, reader in ((".npz", from_npz), (".csv", from_csv), (".mat", from_mat)):
        if name.endswith(ending):
            return reader
    if name in ("cifar-100-binary.tar.gz", "train.bin") or os.path.exists(os.path.join(path, "train.bin")):
        return from_cifar100
    if name == "train_x.bin" or os.path.exists(os.path.join(path, "train_X.bin")):
        return from_stl10
    raise Unfit("its name is none of those that --help lists")


def fit(images, labels, numpy):
    """Images as bytes with their channels last, and labels as a list."""
    labels = labels.reshape(len(labels), -1)
    if labels.shape[1] != 1:
        raise Unfit(f"labels have the shape {labels.shape}, and each image needs one number")
    if images.ndim == 4 and images.shape[1] <= 4 < images.shape[3]:
        images = numpy.moveaxis(images, 1, -1)
    if len(images) != len(labels):
        raise Unfit(f"there are {len(images)} images and {len(labels)} labels")
    if images.size == 0:
        raise Unfit("there are no images")
    if images.dtype.kind == "f" and 0 <= images.min() and images.max() <= 1:
        images = images * 255
    if images.min() < 0 or images.max() > 255:
        raise Unfit(f"pixels lie between {images.min()} and {images.max()}, not 0 and 255")
    return numpy.rint(images).astype(numpy.uint8), labels[:, 0].astype(numpy.int32)


def main():
    if any(word in ("-h", "--help") for word in sys.argv[1:]):
        print(__doc__.strip())
        return
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip().splitlines()[0])
    try:
        import h5py
        import numpy
    except ImportError as error:
        sys.exit(f"convert_images.py: {error}. Install the packages: sudo apt install python3-h5py")
    source, folder = sys.argv[1:]
    try:
        parts = {part: fit(*arrays, numpy) for part, arrays in reader_of(source)(source, numpy).items()}
    except Exception as error:  # a damaged file fails in many ways
        sys.exit(f"convert_images.py: cannot convert {source}: {error}. See --help for the forms that it reads.")
    targets = {part: os.path.join(folder, f"{part}.h5") for part in PARTS}
    for target in targets.values():
        if os.path.exists(target):
            sys.exit(f"convert_images.py: {target} exists. Name another folder.")
    for part, (images, labels) in parts.items():
        target = targets[part]
        try:
            os.makedirs(folder, exist_ok=True)
            with h5py.File(target + ".part", "w") as file:
                file["images"], file["labels"] = images, labels
            os.replace(target + ".part", target)
        except OSError as error:
            sys.exit(f"convert_images.py: cannot write {target} ({error}). Name another folder.")
        print(f"{target}: {len(images)} images of {'x'.join(map(str, images.shape[1:]))}, labels {labels.min()} to {labels.max()}")


if __name__ == "__main__":
    main()
