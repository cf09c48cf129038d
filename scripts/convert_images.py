#!/usr/bin/env python3
"""Converts images of other programs for --data: convert_images.py FROM FOLDER

Arrays of images become train.h5 and test.h5. FROM is one file with both parts, or a file or a folder of training images
whose test images lie beside it:
  .npz   x_train, y_train, x_test, y_test as of Keras; train_images, train_labels, ... as of MedMNIST;
         k49-train-imgs.npz and its three neighbours as of Kuzushiji-49
  .csv   a label and the pixels of a square image in each line, as of Kaggle's MNIST: mnist_train.csv, mnist_test.csv
  .mat   train_32x32.mat, test_32x32.mat of SVHN
  CIFAR-100's binary version: cifar-100-binary.tar.gz, its folder, or train.bin
  STL-10's binary version: its folder stl10_binary, or train_X.bin
Then train: train_cifar --dataset hdf5 --data FOLDER

FROM may also be a folder of parquet files with encoded images, as of Hugging Face's data sets, or one of these files:
train-00000-of-00002.parquet, validation..., test...; or 0000.parquet in folders train, validation, test. FOLDER then
contains the images as they are, and metadata.csv with their classes. Then train: train_images --data FOLDER

Nothing in the files is executed. Needs numpy and h5py, and scipy for .mat:
  sudo apt install python3-h5py python3-scipy   (or: pip install h5py scipy)
For parquet files it needs only pyarrow: pip install pyarrow
"""
import csv
import io
import json
import os
import pathlib
import re
import shutil
import sys
import tarfile
import tempfile

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


def parquet_files(path):
    """The parquet files of FROM by part. Empty: FROM is something else."""
    place = pathlib.Path(path)
    if not place.is_dir() and place.suffix.lower() != ".parquet":
        return {}
    root = place if place.is_dir() else place.parent
    parts = {"train": [], "validation": [], "test": []}
    kinds = (("train", r"train(ing)?"), ("validation", r"val(id(ation)?)?|eval|dev"), ("test", r"test(ing)?"))
    files = sorted(file for file in root.rglob("*.[pP][aA][rR][qQ][uU][eE][tT]") if file.is_file())
    for file in files:
        names = [re.split(r"[-.]", file.name.lower())[0], file.parent.name.lower()]
        part = next((part for name in names for part, pattern in kinds if re.fullmatch(pattern, name)), None)
        if not part:
            raise Unfit(f"the name of {file} tells no part. Begin it with train, validation or test")
        parts[part].append(file)
    return parts if files else {}


def columns_of(schema):
    """The columns of images and classes in a parquet file, and the names of the classes; None: the column has them."""
    features = json.loads((schema.metadata or {}).get(b"huggingface", b"{}")).get("info", {}).get("features", {})
    kinds = {name: feature.get("_type") for name, feature in features.items() if isinstance(feature, dict)}
    images = [name for name in schema.names if kinds.get(name) == "Image"]
    images += [name for name in ("image", "img") if name in schema.names]
    labels = [name for name in ("label", "labels") if name in schema.names]
    labels += [name for name in schema.names if kinds.get(name) == "ClassLabel"]
    if not images or not labels:
        raise Unfit(f"it has the columns {', '.join(schema.names)}, and no {'label' if images else 'image'}")
    return images[0], labels[0], features.get(labels[0], {}).get("names")


def rows_of(file, parquet):
    """The bytes of each image and its class; None: it has none."""
    table = parquet.ParquetFile(file)
    image, label, names = columns_of(table.schema_arrow)
    row = 0
    for batch in table.iter_batches(batch_size=64, columns=[image, label]):
        for content, number in zip(batch.column(image).to_pylist(), batch.column(label).to_pylist()):
            row += 1
            content = content.get("bytes") if isinstance(content, dict) else content
            if not isinstance(content, bytes) or not isinstance(number, (int, str, type(None))):
                raise Unfit(f"row {row} of {file} has no bytes of an image, or no single class")
            if names and isinstance(number, int):
                if number >= len(names):
                    raise Unfit(f"row {row} of {file} has class {number}, and {len(names)} have names")
                number = names[number] if number >= 0 else None
            yield content, None if number in (None, "") else str(number)


def write_images(parts, folder, parquet):
    """Writes the images of each part and metadata.csv into the new folder. Returns a line for each part."""
    texts = []
    with open(os.path.join(folder, "metadata.csv"), "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("file_name", "label"))
        for part, files in parts.items():
            count, unknown, classes = 0, 0, set()
            os.makedirs(os.path.join(folder, part))
            for content, label in (row for file in files for row in rows_of(file, parquet)):
                if label is None:
                    unknown += 1
                    continue
                ending = {b"\xff\xd8": "jpg", b"\x89P": "png"}.get(content[:2], "image")
                name = f"{part}/{count:08}.{ending}"
                with open(os.path.join(folder, name), "xb") as image:
                    image.write(content)
                table.writerow((name, label))
                classes.add(label)
                count += 1
            left_out = f"; {unknown} without a class left out" if unknown else ""
            texts.append(f"{part}: {count} images in {len(classes)} classes{left_out}")
    return texts


def convert_parquet(source, parts, folder):
    try:
        from pyarrow import parquet
    except ImportError as error:
        sys.exit(f"convert_images.py: {error}. Install the package: pip install pyarrow")
    if os.path.exists(folder) and (not os.path.isdir(folder) or os.listdir(folder)):
        sys.exit(f"convert_images.py: {folder} exists and is not empty. Name another folder.")
    target = os.path.abspath(folder)
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        place = tempfile.mkdtemp(prefix=os.path.basename(target) + ".part-", dir=os.path.dirname(target))
    except OSError as error:
        sys.exit(f"convert_images.py: cannot write {folder} ({error}). Name another folder.")
    try:
        mask = os.umask(0o077)
        os.umask(mask)
        os.chmod(place, 0o777 & ~mask)
        texts = write_images({part: files for part, files in parts.items() if files}, place, parquet)
        os.rename(place, target)
    except Exception as error:  # a damaged file fails in many ways
        sys.exit(f"convert_images.py: cannot convert {source}: {error}. See --help for the forms that it reads.")
    finally:
        shutil.rmtree(place, ignore_errors=True)
    for text in texts:
        print(f"{folder}/{text}")


def main():
    if any(word in ("-h", "--help") for word in sys.argv[1:]):
        print(__doc__.strip())
        return None
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip().splitlines()[0])
    source, folder = sys.argv[1:]
    try:
        parts = parquet_files(source)
    except Unfit as error:
        sys.exit(f"convert_images.py: cannot convert {source}: {error}.")
    if parts:
        return convert_parquet(source, parts, folder)
    try:
        import h5py
        import numpy
    except ImportError as error:
        sys.exit(f"convert_images.py: {error}. Install the packages: sudo apt install python3-h5py")
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
