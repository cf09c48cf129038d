#!/usr/bin/env bash
# train_reuters: generated texts and reuters.h5, which scripts/convert_reuters.py makes of an archive like Keras'. Bitwise
# identical on any number of ranks; its table of layers, its recipe and the lines of its epochs.
# usage: reuters.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py

wires() {  # RANKS OPTIONS...: a run that must end well
  ranks "$1" train_reuters "${small[@]}" "${@:2}"
  expect "mpirun -np $1 ./train_reuters ${*:2}" test "$code" = 0
}

ranks 1 train_reuters --help
expect_line "its help names its data set" 'data.set reuters'

# --- the table, as Keras prints it ---------------------------------------------------------------------------------------
ranks 2 train_reuters --summary
expect "--summary ends well" test "$code" = 0
expect_line "the embedding" '^embedding \(None,.300,.7\) 216874'
expect_line "the first convolution" '^conv1d \(None,.296,.64\) 2304'
expect_line "the first pool" '^max_pooling1d \(None,.148,.64\) 0'
expect_line "the second convolution" '^conv1d_1 \(None,.146,.32\) 6176'
expect_line "flatten" '^flatten \(None,.2336\) 0'
expect_line "the dense layer" '^dense \(None,.46\) 107502'
expect_line "the sum" '^Total 332,856'
expect "one table" test "$(grep -c '^Model: ' "$folder/out")" = 1
ranks 1 train_cifar --dataset cifar10_32 --model resnet20 --summary
expect_line "without its files" '^conv \(None,.32,.32,.16\) 432'
ranks 1 train_mnist --model keras --summary
expect_line "statistics are not trained" '^Non-trainable 512'

# --- without data --------------------------------------------------------------------------------------------------------
wires 2 --steps 80 --shards 2 --lr 0.01 --global-batch 32 --checkpoint-every 40 --run "$folder/two"
expect_line "the generated set" '^data texts 8982'
expect_line "its model" '^model reuters 332856'
expect_line "its optimizer" '^optimizer nadam beta1.0.9 beta2.0.999 1e-07 lr.0.01'
losses=$(grep '"kind":"train"' "$folder/two/metrics.jsonl" | sed 's/.*"loss":\([0-9.e-]*\).*/\1/')
expect "the loss falls" awk '{ x[NR] = $1 } END {
  exit !(NR == 80 && x[80] + x[79] + x[78] < 0.98 * (x[1] + x[2] + x[3])) }' <<<"$losses"
wires 1 --steps 80 --shards 2 --lr 0.01 --global-batch 32 --run "$folder/one"
expect_same_state "one rank computes the same bits" "$(step_file "$folder/one" 80)" "$(step_file "$folder/two" 80)"
if has_bf16; then
  ranks 1 train_reuters "${small[@]}" --precision bf16 --steps 2
  expect "bf16" test "$code" = 0
fi

# --- the recipe, and options that override it ---------------------------------------------------------------------------
ranks 1 train_reuters --threads 1 --check
expect_line "32 texts a step" '^batch 32 1.shard'
ranks 2 train_reuters --threads 1 --batch 8 --optimizer adam --check
expect_line "another batch" '^batch 16 2.shards'
expect_line "another optimizer" '^optimizer adam beta1.0.9 beta2.0.999 1e-08 lr.0.001'
ranks 1 train_reuters --threads 1 --as-published --check
expect_line "the softmax twice" '^model reuters_as_published 332856'
ranks 1 train_reuters --as-published --model reuters
expect_error "two models" 2 '^train_reuters: --as-published --model reuters_as_published reuters'

# --- reuters.h5 ----------------------------------------------------------------------------------------------------------
data=$folder/data
mkdir "$data"
make_archive() {  # EXPRESSION of the texts
  "$python" - "$data/reuters.npz" "$1" <<'END'
import sys
import numpy
texts = numpy.empty(40, dtype=object)
texts[:] = eval(sys.argv[2])
numpy.savez(sys.argv[1], x=texts, y=numpy.arange(40) % 46)
END
}
convert() { run "$python" "$here/../../scripts/convert_reuters.py" "$data/reuters.npz" "$data"; }
make_archive '[[1 + (i * j) % 50 for j in range(1 + 10 * i)] for i in range(40)]'
ranks 1 train_reuters "${small[@]}" --data "$data" --steps 1
expect_error "the archive in its place" 65 'reuters.npz scripts/convert_reuters.py'
convert
expect "the archive is converted" test "$code" = 0
wires 2 --data "$data" --epochs 3 --eval-every epoch --run "$folder/epochs"
expect_line "the file" "^data 32 $data"
expect_line "each epoch's line" '^epoch.1/3 loss.[0-9.]+ acc.[0-9.]+ val_loss.[0-9.]+ val_acc.[0-9.]+ val_top5.[0-9.]+'
expect "all of them" test "$(grep -c '^epoch [123]/3: ' "$folder/out")" = 3
expect "and in the metrics" test "$(grep -c '"kind":"epoch"' "$folder/epochs/metrics.jsonl")" = 3
expect_line "a test text is in it" '8.samples'
"$python" - "$data/reuters.h5" <<'END' || complain "other words than Keras reads"
import sys
import h5py
import numpy
order = numpy.arange(40)
numpy.random.RandomState(113).shuffle(order)
with h5py.File(sys.argv[1]) as file:
    offsets, values, labels = (file[name][:] for name in ("offsets", "values", "labels"))
    assert file.attrs["train"] == 32
for place, i in enumerate(order):
    words = [1 + (i * j) % 50 for j in range(1 + 10 * i)]
    expected = [1] + [word + 3 if word < 50 else 2 for word in words]
    assert list(values[offsets[place]:offsets[place + 1]]) == expected, place
    assert labels[place] == i
END

# get_data.sh converts an archive that is there and whole, and leaves other files as they are.
get_data() { run env LOCKSTEP_REUTERS_SHA256="$1" bash "$here/../../scripts/get_data.sh" reuters "$data"; }
rm "$data/reuters.h5"
get_data "$(sha256sum "$data/reuters.npz" | cut -d' ' -f1)"
expect "get_data.sh ends well" test "$code" = 0
expect "and has made reuters.h5" test -s "$data/reuters.h5"
get_data "$(sha256sum "$data/reuters.npz" | cut -d' ' -f1)"
expect "once more" test "$code" = 0
echo mine >"$data/reuters.h5"
get_data "$(sha256sum "$data/reuters.npz" | cut -d' ' -f1)"
expect_error "another reuters.h5" 1 "$data/reuters.h5"
expect "it is unchanged" test "$(cat "$data/reuters.h5")" = mine
expect "nothing is left beside it" test "$(find "$data" -name '.convert*' | wc -l)" = 0
get_data 0123
expect_error "another archive" 1 "^get_data.sh: $data/reuters.npz damaged"

make_archive '[print] * 40'
convert
expect_error "an archive with code" 1 "^convert_reuters.py: $data/reuters.npz builtins.print"
make_archive '[["one"]] * 40'
convert
expect_error "an archive without numbers" 1 'text list'
echo nothing >"$data/reuters.npz"
convert
expect_error "no archive" 1 "reuters.npz zip"
head -c 3000 "$data/reuters.h5" >"$folder/short" && mv "$folder/short" "$data/reuters.h5"
ranks 2 train_reuters "${small[@]}" --data "$data" --steps 1
expect_error "a short file" 65 'reuters.h5'
finish
