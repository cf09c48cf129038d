#!/usr/bin/env python3
"""Converts reuters.npz of Keras to reuters.h5 for train_reuters: convert_reuters.py reuters.npz FOLDER

The result equals that of keras.datasets.reuters.load_data(). Texts are shuffled with seed 113. Each word is increased by
3, and each text begins with 1. The last word of the vocabulary becomes 2. Of 11,228 texts 8,982 are for training.
reuters.npz contains a pickled object. This script accepts only lists of numbers from it.

Needs numpy and h5py:  sudo apt install python3-h5py   (or: pip install h5py)
"""
import io
import os
import pickle
import sys
import zipfile

START, LEFT_OUT, ADDED, SEED, TEST_SHARE = 1, 2, 3, 113, 0.2


class Unpickler(pickle.Unpickler):
    """Builds arrays of lists of numbers. Refuses everything else that a pickle could run."""

    ALLOWED = {("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct"),
               ("numpy", "ndarray"), ("numpy", "dtype")}

    def find_class(self, module, name):
        if (module, name) not in self.ALLOWED:
            raise ValueError(f"it uses {module}.{name}, which a list of words does not need")
        return super().find_class(module, name)


def read(path, numpy):
    """Returns the texts, as lists of words, and their topics."""
    with zipfile.ZipFile(path) as archive:
        words, topics = io.BytesIO(archive.read("x.npy")), io.BytesIO(archive.read("y.npy"))
    version = numpy.lib.format.read_magic(words)
    if version != (1, 0):
        raise ValueError(f"x.npy has version {version} instead of (1, 0)")
    shape, _, kind = numpy.lib.format.read_array_header_1_0(words)
    texts = Unpickler(words, encoding="latin1").load() if kind.hasobject else None
    labels = numpy.load(topics, allow_pickle=False)
    if texts is None or texts.shape != shape or texts.ndim != 1 or labels.shape != shape:
        raise ValueError("it does not contain a list of texts with a label for each")
    for text in texts:
        if not isinstance(text, list) or not text or not all(type(word) is int and word > 0 for word in text):
            raise ValueError("it contains a text that is not a list of words")
    return texts, labels


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip().splitlines()[0])
    try:
        import h5py
        import numpy
    except ImportError as error:
        sys.exit(f"convert_reuters.py: {error}. Install the packages: sudo apt install python3-h5py")
    source, folder = sys.argv[1:]
    try:
        texts, labels = read(source, numpy)
    except Exception as error:  # a damaged archive fails in many ways
        sys.exit(f"convert_reuters.py: {source} is not reuters.npz of Keras ({error}). Download it with scripts/get_data.sh reuters.")
    order = numpy.arange(len(texts))
    numpy.random.RandomState(SEED).shuffle(order)
    texts = [[START] + [word + ADDED for word in texts[i]] for i in order]
    vocabulary = max(map(max, texts))
    values = numpy.array([word if word < vocabulary else LEFT_OUT for text in texts for word in text], dtype="<i4")
    offsets = numpy.cumsum([0] + [len(text) for text in texts]).astype("<i4")
    target = os.path.join(folder, "reuters.h5")
    try:
        os.makedirs(folder, exist_ok=True)
        with h5py.File(target + ".part", "w") as file:
            for name, array in (("values", values), ("offsets", offsets), ("labels", labels[order].astype("<i4"))):
                file.create_dataset(name, data=array, chunks=array.shape, fletcher32=True)
            file.attrs["train"] = int(len(texts) * (1 - TEST_SHARE))
            file.attrs["vocabulary"] = vocabulary
        os.replace(target + ".part", target)
    except OSError as error:
        sys.exit(f"convert_reuters.py: cannot write {target} ({error}). Name another folder.")
    print(f"{target}: {len(texts)} texts, {len(values)} words, vocabulary of {vocabulary}")


if __name__ == "__main__":
    main()
