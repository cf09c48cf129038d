#!/usr/bin/env bash
# Data and weights of the user: class folders of images, HDF5 files, --init. Unfit files are refused in one line.
# usage: own_data.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
data=$folder/data

# --- HDF5 ----------------------------------------------------------------------------------------------------------------
make_hdf5() {  # a numpy type
  rm -rf "$data" && mkdir "$data"
  "$python" - "$data" "$1" <<'END'
import sys
import h5py
import numpy
random = numpy.random.RandomState(1)
for part, count in (("train", 40), ("test", 12)):
    with h5py.File(f"{sys.argv[1]}/{part}.h5", "w") as file:
        file["images"] = random.randint(0, 256, (count, 10, 12, 3)).astype(sys.argv[2])
        file["labels"] = numpy.arange(count) % 3
END
}
own() { train "$1" --data "$data" "${@:2}"; }
for kind in uint8 float64; do
  make_hdf5 $kind
  own 2 --dataset hdf5 --steps 2 --eval-every 2
  expect_line "$kind" "^data HDF5 40 10x12x3 3 $data"
  expect_line "all test images of $kind" 'evaluation top-1 12.samples'
done
expect_line "a network for images of any size" '^model resnet20'
ranks 1 train_cifar "${small[@]}" --dataset hdf5
expect_error "no folder" 2 '--dataset hdf5 --data train.h5 test.h5'
ranks 2 train_cifar "${small[@]}" --dataset hdf5 --data "$data" --model deep_mnist
expect_error "a network of another size" 2 '1x28x28x1 1x10x12x3 --model'
identity_of() {  # the checksums of a run's data
  "$python" "$here/facts.py" "$1" files
}
rewrite() {  # PYTHON: changes "images" or "labels" of test.h5, a file of h5py
  "$python" - "$data/test.h5" "$1" <<'END'
import sys
import h5py
import numpy
with h5py.File(sys.argv[1], "r+") as file:
    images, labels = file["images"][()], file["labels"][()]
    del file["images"], file["labels"]
    options = {"images": {}, "labels": {}}
    exec(sys.argv[2])
    for name, array in (("images", images), ("labels", labels)):
        file.create_dataset(name, data=array, **options[name])
END
}
own 1 --dataset hdf5 --steps 1 --run "$folder/plain"
rewrite 'options["images"] = dict(compression="gzip", shuffle=True, fletcher32=True); options["labels"] = dict(compression="gzip")'
own 1 --dataset hdf5 --steps 1 --run "$folder/gzip"
expect "gzip holds the same data" test "$(identity_of "$(step_file "$folder/gzip" 1)")" = "$(identity_of "$(step_file "$folder/plain" 1)")"
rewrite 'options["images"] = dict(compression="lzf")'
ranks 2 train_cifar "${small[@]}" --dataset hdf5 --data "$data"
expect_error "an array with another compression" 65 "$data/test.h5 images compressed gzip"
rewrite 'labels = numpy.array([b"cat", b"dog", b"fox"])[labels]'
ranks 2 train_cifar "${small[@]}" --dataset hdf5 --data "$data"
expect_error "labels in words" 65 "$data/test.h5 labels text numbers"
expect "are no damage" bash -c "! grep -q damaged '$folder/err'"
rm "$data/test.h5"
ranks 2 train_cifar "${small[@]}" --dataset hdf5 --data "$data"
expect_error "a file is missing" 65 "$data/test.h5"

# --- arrays of other programs, converted -----------------------------------------------------------------------------
convert() { run "$python" "$here/../../scripts/convert_images.py" "$1" "$2"; }
mkdir "$folder/from"
"$python" - "$folder/from" <<'END'
import sys
import numpy
folder, random = sys.argv[1], numpy.random.RandomState(1)
images, labels = {"train": random.randint(0, 256, (40, 8, 8)), "test": random.randint(0, 256, (20, 8, 8))}, {}
for part, array in images.items():
    labels[part] = numpy.arange(len(array)) % 10
    rows = numpy.hstack([labels[part][:, None], array.reshape(len(array), -1)])
    numpy.savetxt(f"{folder}/mnist_{part}.csv", rows, "%d", ",", header="label," + ",".join(map(str, range(64))), comments="")
    numpy.savez(f"{folder}/k49-{part}-imgs.npz", arr_0=array.astype("u1"))
    numpy.savez(f"{folder}/k49-{part}-labels.npz", arr_0=labels[part])
    records = random.randint(0, 256, (50, 3074)).astype("u1")
    records[:, 1] = numpy.arange(50) % 100
    records.tofile(f"{folder}/{part}.bin")
numpy.savez(f"{folder}/keras.npz", x_train=images["train"].astype("u1"), y_train=labels["train"][:, None],
            x_test=images["test"] / 255, y_test=labels["test"])
numpy.savez(f"{folder}/code.npz", x_train=numpy.array([print], dtype=object), y_train=[0], x_test=[0], y_test=[0])
END
for from in keras.npz mnist_train.csv k49-train-imgs.npz train.bin; do
  convert "$folder/from/$from" "$folder/to-$from"
  expect "$from is converted" test "$code" = 0
done
"$python" - "$folder" <<'END' || complain "converted arrays are not those of their files"
import sys
import h5py
import numpy
def read(name, part):
    with h5py.File(f"{sys.argv[1]}/to-{name}/{part}.h5") as file:
        return file["images"][()], file["labels"][()]
for part in ("train", "test"):
    images, labels = read("keras.npz", part)
    assert images.dtype == "u1" and images.shape[1:] == (8, 8) and labels.tolist() == [i % 10 for i in range(len(images))]
    for other in ("mnist_train.csv", "k49-train-imgs.npz"):
        assert all((a == b).all() for a, b in zip(read(other, part), (images, labels))), other
    records = numpy.fromfile(f"{sys.argv[1]}/from/{part}.bin", "u1").reshape(50, 3074)
    images, labels = read("train.bin", part)
    assert (labels == records[:, 1]).all() and (images[7, 3, 5] == records[7, [2 + c * 1024 + 3 * 32 + 5 for c in range(3)]]).all()
END
own_converted() { data=$folder/to-train.bin own "$@"; }
own_converted 1 --dataset hdf5 --check
expect_line "its classes" '^data HDF5 50 32x32x3 50'
convert "$folder/from/keras.npz" "$folder/to-keras.npz"
expect_error "files that exist" 1 "^convert_images.py: $folder/to-keras.npz/train.h5"
convert "$folder/from/code.npz" "$folder/to-code"
expect_error "an archive with objects" 1 "^convert_images.py: $folder/from/code.npz allow_pickle"
convert "$folder/from" "$folder/to-none"
expect "a folder of CIFAR-100's files" test "$code" = 0
convert "$folder/none" "$folder/to-nothing"
expect_error "no file" 1 "^convert_images.py: $folder/none --help"
mkdir "$folder/hub" "$folder/without" && : >"$folder/hub/train.parquet"
echo 'raise ImportError("No module named pyarrow")' >"$folder/without/pyarrow.py"
PYTHONPATH=$folder/without convert "$folder/hub" "$folder/to-hub"
expect_error "parquet files without pyarrow" 1 '^convert_images.py: pyarrow pip.install.pyarrow'

# --- class folders -------------------------------------------------------------------------------------------------------
rm -rf "$data"
"$python" - "$data" <<'END'
import os
import struct
import sys
import zlib

def png(path, width, height, value):
    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    rows = (b"\0" + bytes([value, 255 - value, 7] * width)) * height
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                   chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))

for part, count in (("train", 20), ("test", 5)):
    for place, name in enumerate(("dark", "light")):
        os.makedirs(f"{sys.argv[1]}/{part}/{name}")
        for i in range(count):
            png(f"{sys.argv[1]}/{part}/{name}/{i}.png", 16, 16, 20 + 200 * place + i)
END
own 2 --dataset folder --steps 8 --eval-every 8 --ema 0 --run "$folder/run"
expect_line "its classes" "^data 40 16x16x3 2 $data"
ranks 1 evaluate --threads 1 --data "$data" --weights raw "$folder/run" --logits "$folder/logits.h5"
expect_line "their names" '^true dark light'
checkpoint=$(step_file "$folder/run" 8)
sum=$(cksum <"$checkpoint")
ranks 1 evaluate --threads 1 --data "$data" --weights raw "$checkpoint" --logits "$checkpoint"
expect_error "logits in place of the checkpoint" 2 "$checkpoint exists"
expect "it is as it was" test "$(cksum <"$checkpoint")" = "$sum"
mkfifo "$folder/pipe"
ranks 1 evaluate --threads 1 --data "$data" --weights raw "$checkpoint" --logits "$folder/pipe"
expect_error "logits in place of a pipe" 1 "$folder/pipe"
expect "it is a pipe still" test -p "$folder/pipe"
"$python" - "$folder/logits.h5" <<'END' || complain "the logits are not those of all test images"
import sys
import h5py
with h5py.File(sys.argv[1]) as file:
    assert file["samples"].shape == (10, 16, 16, 3) and file["logits"].shape == (10, 2)
    assert list(file["labels"]) == [0] * 5 + [1] * 5 and file.attrs["model"] == b"resnet20"
END
echo none >"$data/test/light/3.png"
ranks 2 train_cifar "${small[@]}" --dataset folder --data "$data"
expect_error "no image" 65 "$data/test/light/3.png PNG JPEG"
rm "$data/test/light/3.png"
mkfifo "$data/test/light/3.png"
ranks 2 train_cifar "${small[@]}" --dataset folder --data "$data"
expect_error "a pipe for an image" 65 "$data/test/light/3.png regular"
rm "$data/test/light/3.png"
ln -s 3.png "$data/test/light/3.png"
ranks 2 train_cifar "${small[@]}" --dataset folder --data "$data"
expect_error "a link to itself" 65 "$data/test/light Too.many.levels.of.symbolic.links"

# --- weights to begin with -----------------------------------------------------------------------------------------------
train 2 --steps 3 --run "$folder/first"
first=$(step_file "$folder/first" 3)
train 2 --steps 1 --lr 1e-30 --seed 9 --init "$first" --run "$folder/second"
"$python" - "$first" "$(step_file "$folder/second" 1)" <<'END' || complain "the run does not begin with the weights of --init"
import sys
import h5py
with h5py.File(sys.argv[1]) as first, h5py.File(sys.argv[2]) as second:
    assert second.attrs["step"] == 1
    for section in ("parameters", "ema"):
        names = []
        first[section].visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        assert names
        for name in names:
            assert (first["parameters"][name][()] == second[section][name][()]).all(), (section, name)
END
train 2 --steps 2 --lr 1e-30 --seed 9 --init "$first" --run "$folder/second"
expect_line "the same command resumes" '^resumed step.1 2'
ranks 2 train_cifar "${small[@]}" --model resnet_small --init "$first" --steps 1
expect_error "weights of another model" 1 "$first model 'tutorial'"
ranks 2 train_cifar "${small[@]}" --init "$folder/none.h5" --steps 1
expect_error "weights that are not there" 1 "$folder/none.h5 No.such.file"
finish
