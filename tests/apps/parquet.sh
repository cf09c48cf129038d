#!/usr/bin/env bash
# Parquet files of images, as of Hugging Face's data sets: scripts/convert_images.py writes the images and a table of their
# classes, and training has the weights of class folders with the same files.
# usage: parquet.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
for python in ${LOCKSTEP_PYTHON:-} python3 none; do
  "$python" -c "import h5py, pyarrow" 2>/dev/null && break
done
[[ $python != none ]] || skip "no python has pyarrow and h5py (pip install pyarrow h5py)"
cd "$folder" || exit 1
"$python" - <<'END'
import json, os, struct
import pyarrow
from pyarrow import parquet

def image(width, pixel):
    row = pixel * width
    data = (row + b"\0" * (-len(row) % 4)) * 30
    return struct.pack("<2sIHHIIiiHHIIiiII", b"BM", 54 + len(data), 0, 0, 54, 40, width, 30, 1, 24, 0, len(data),
                       0, 0, 0, 0) + data
def write(file, rows, names):
    os.makedirs(os.path.dirname(file), exist_ok=True)
    content = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
    label = pyarrow.int64() if names else pyarrow.string()
    schema = pyarrow.schema([("id", pyarrow.int32()), ("image", content), ("label", label)])
    if names:
        features = {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": names}}
        schema = schema.with_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    rows = [{"id": i, "image": {"bytes": row[0], "path": "../../x.bmp"}, "label": row[1]} for i, row in enumerate(rows)]
    parquet.write_table(pyarrow.Table.from_pylist(rows, schema), file, row_group_size=3)
names = ["sky, blue", "röt"]  # sorted by name, the second comes first
parts = {part: [(image(20 + i, b"\x20\x10\xd0" if i % 2 else b"\xd0\x20\x10"), i % 2) for i in range(count)]
         for part, count in (("train", 24), ("validation", 8))}
write("hub/data/train-00000-of-00002.parquet", parts["train"][:10], names)
write("hub/data/train-00001-of-00002.parquet", parts["train"][10:], names)
write("hub/data/validation-00000-of-00001.parquet", [*parts["validation"], (image(9, b"abc"), -1)], names)
write("texts/default/train/0000.parquet", [(content, names[label]) for content, label in parts["train"]], None)
for part, rows in parts.items():
    for i, (content, label) in enumerate(rows):
        os.makedirs(f"folders/{part}/{names[label]}", exist_ok=True)
        with open(f"folders/{part}/{names[label]}/{i:03}.bmp", "wb") as file:
            file.write(content)
write("many/train.parquet", [(image(9, b"abc"), 2)], names)
write("none/train.parquet", [(None, 1)], names)
write("nameless/some.parquet", parts["train"], names)
parquet.write_table(pyarrow.table({"image": [b"x"], "kind": [1]}), "columns.parquet")
os.makedirs("columns")
os.rename("columns.parquet", "columns/train.parquet")
os.makedirs("damaged")
with open("hub/data/train-00000-of-00002.parquet", "rb") as whole, open("damaged/train.parquet", "wb") as cut:
    cut.write(whole.read()[:-9])
END
convert() { run "$python" "$here/../../scripts/convert_images.py" "$@"; }
run=(train_images --model resnet_small --image-size 16 --global-batch 8 --shards 2 --ema 0 --lr 0.01 --eval-every 0
     --summary-every 0 --threads 1 --steps 6)

convert hub converted
expect "parts and rows without a class" test "$code-$(cat out)" = "0-converted/train: 24 images in 2 classes
converted/validation: 8 images in 2 classes; 1 without a class left out"
convert hub/data/train-00001-of-00002.parquet again
expect "one of the files" diff -r converted again
convert texts texts_converted
expect "classes in texts" diff -r converted/train texts_converted/train
expect "the same classes" diff <(grep -v validation converted/metadata.csv) texts_converted/metadata.csv
for data in folders converted; do
  ranks 2 "${run[@]}" --data $data --run ./run_$data
  expect "training on $data" test "$code" = 0
done
expect_line "names of the classes" '^data 24 converted/metadata.csv classes röt,.sky,.blue'
expect_same_state "class folders" "$(step_file run_folders 6)" "$(step_file run_converted 6)"

refused() {  # WHAT WORDS FROM
  convert "$3" new
  expect_error "$1" 1 "^convert_images.py: $2"
  expect "$1: nothing is written" test -z "$(find . -maxdepth 1 -name 'new*')"
}
refused "a class without a name" 'row.1 many/train.parquet class 2' many
refused "an image without bytes" 'row.1 none/train.parquet bytes' none
refused "a file without a part" 'nameless/some.parquet train,.validation' nameless
refused "other columns" 'columns image,.kind label' columns
refused "a damaged file" 'damaged' damaged
convert hub converted
expect_error "a folder that exists" 1 '^convert_images.py: converted exists'
finish
