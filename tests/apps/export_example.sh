#!/usr/bin/env bash
# The example of docs/models.md: the classes, probabilities and pixels of classify for all formats, shapes and turns.
# usage: export_example.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
for python in ${LOCKSTEP_PYTHON:-} python3 /usr/bin/python3 none; do
  "$python" -c 'import h5py, PIL' 2>/dev/null && break
done
[[ $python != none ]] || skip "no python has the packages h5py and PIL (scripts/install_dependencies.sh --tests)"
limit=200

photos=$folder/photos
"$python" "$here/export_example.py" images "$photos" || complain "images"
# NAME SAMPLE PROGRAM OPTIONS...: trains a network of one layer, exports it, and classifies the photos.
exported() {
  name=$folder/$1
  printf '%s\n' "sample = $2" 'layers = [{type = "flatten"}, {type = "dense", name = "out", features = "$classes"}]' >"$name.toml"
  ranks 1 "$3" --threads 1 --model "$name.toml" --ema 0 --steps 1 --global-batch 2 --eval-every 0 --checkpoint-dir "$name" "${@:4}"
  expect "train $1" test "$code" = 0
  "$python" "$here/export_example.py" weights "$(step_file "$name" 1)" || complain "weights of $1"
  for format in onnx safetensors; do
    ranks 1 export_model "$name" "$name.$format"
    expect "export $1" test "$code" = 0
  done
  ranks 1 classify "$name" --json "$photos/a" "$photos/b"
  expect "classify $1" test "$code" = 0
  cp "$folder/out" "$name.jsonl"
}
compare() {  # NAME [LOGITS]
  run "$python" "$here/export_example.py" run "$folder/$1.onnx" "$folder/$1.jsonl" "${@:2}"
  expect "the example of $1: $(cat "$folder/out")" test "$code" = 0
}
exported rgb "[32, 32, 3]" train_images --data "$photos" --validation 0.5 --image-size 32
ranks 1 evaluate "$folder/rgb" --threads 1 --data "$photos" --no-confusion
expect "the folder of the run gives its share, counted" grep -qE "^evaluate: note: [0-9]+ of 76 images in $photos" "$folder/err"
cp -r "$photos" "$folder/others"
rm "$folder/others/b/$(cd "$photos/b" && printf '%s\n' * | LC_ALL=C sort | tail -n 1)"
ranks 1 evaluate "$folder/rgb" --threads 1 --data "$folder/others" --no-confusion --logits "$folder/logits.h5"
expect "another folder gives all images" grep -qE "^evaluate: note: 75 of 75 images in $folder/others" "$folder/err"
compare rgb "$folder/logits.h5"
exported grey "[24, 24, 1]" train_images --data "$photos" --validation 0.5 --image-size 24 --colours grey
compare grey
"$python" - "$folder" <<'END'
import sys
import h5py
import numpy
for part in ("train", "test"):
    with h5py.File(f"{sys.argv[1]}/{part}.h5", "w") as file:
        file["images"] = numpy.random.RandomState(3).randint(0, 256, (20, 20, 30, 3), "u1")
        file["labels"] = numpy.arange(20) % 3
END
exported oblong "[20, 30, 3]" train_cifar --dataset hdf5 --data "$folder"
compare oblong
finish
