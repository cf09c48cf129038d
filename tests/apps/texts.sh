#!/usr/bin/env bash
# train_texts: a CSV file and the same texts in folders, bitwise identical on any number of ranks; evaluate and classify read the
# words from the checkpoint; the page shows texts; and the example of docs/texts.md prints the classes of classify.
# usage: texts.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
cd "$folder" || exit 1
"$python" "$here/texts.py" make || complain "texts"
settings=(--threads 1 --shards 2 --global-batch 16 --words 50 --length 12)

# --- training --------------------------------------------------------------------------------------------------------------
for count in 1 2; do
  ranks "$count" train_texts "${settings[@]}" --data texts.csv --epochs 3 --run "./run$count"
  expect "train on $count ranks" test "$code" = 0
done
expect_line "the model" '^model text_cnn'
expect_line "its texts" '^data 300.training.texts 3.classes texts.csv'
last=$(find run1/checkpoints -name 'step-*.h5' | sort | tail -n 1)
expect_same_state "two ranks give the same bits" "$last" "run2/${last#run1/}"
ranks 1 train_texts "${settings[@]}" --data folder --epochs 3 --run ./folders
expect_same_state "so do folders" "$last" "folders/${last#run1/}"
ranks 1 train_texts "${settings[@]}" --data texts.csv --epochs 3 --model reuters --run ./reuters
expect "the network of Reuters" test "$code" = 0
ranks 1 train_texts "${settings[@]}" --data texts.csv --epochs 4 --words 40 --run ./run1
expect_error "another vocabulary in a resume" 2 '--words 40 50'

ranks 1 train_texts "${settings[@]}" --data hard.csv --epochs 1 --init ./run1
expect_error "weights for other words" 2 'run1 --init words'

# --- evaluate, classify ----------------------------------------------------------------------------------------------------
mv texts.csv elsewhere.csv
ranks 1 evaluate ./run1 --threads 1
expect_error "the file is gone" 2 'texts.csv --data'
run "$build/verify_run" ./run1 --stretches 1 --np 1 --data elsewhere.csv
expect "verify_run knows a table of another name" test "$code" = 0
for data in elsewhere.csv folder; do
  rm -f predictions.csv
  ranks 2 evaluate ./run1 --threads 1 --data $data --predictions predictions.csv
  expect "evaluate $data" test "$code" = 0
  expect_line "it has learned" 'top-1 (9[0-9]|100)\.[0-9]+'
  [[ $data == folder ]] || expect "rows of the table" test "$(cut -d, -f1 predictions.csv | sed -n '1p;2p;$p' | tr '\n' ' ')" = \
    'file elsewhere.csv:301 elsewhere.csv:360 '
done
cp elsewhere.csv texts_before.csv
ranks 2 evaluate ./run1 --threads 1 --data elsewhere.csv --predictions elsewhere.csv
expect_error "predictions in place of the data" 2 'elsewhere.csv exists'
expect "the data are as they were" cmp texts_before.csv elsewhere.csv
answers() {  # OPTIONS...: classifies the texts of lines.txt, one on a line
  code=0
  "$build/classify" ./run1 - "$@" <lines.txt >"$folder/out" 2>"$folder/raw" || code=$?
  expect "classify ${*:-plain}" test "$code" = 0
}
answers
expect_line "the first words, and the class" '^Great.film great'
answers --csv
cp out lines.csv
answers --json
"$python" "$here/texts.py" answers lines.csv out || complain "CSV and JSON differ"
ranks 1 classify ./run1 folder/test/bad
expect "files of a folder" test "$(grep -c '^folder/test/bad' "$folder/out")" = 20
ranks 1 classify ./run1 folder/test/bad/0.txt "a film"
expect "a text in the place of a file" test "$code" = 1
expect "it is named" lines_with "$folder/raw" '^classify:.a.film standard.input'
printf 'good\nbad \xff\n' >"$folder/mixed"
code=0
"$build/classify" ./run1 - <mixed >out 2>raw || code=$?
expect "a line that is no UTF-8 is passed over" test "$code-$(wc -l <out)-$(grep -c UTF-8 raw)" = 1-2-1
printf 'good\n\nbad\n' >"$folder/mixed"
"$build/classify" ./run1 - --csv <mixed >out 2>raw
expect "an empty line has an answer" test "$(cut -d, -f1 out | tr '\n' '|')" = 'text|good||bad|'
run "$build/classify" ./run1 elsewhere.csv --json
expect "a table is answered row by row" test "$code-$(wc -l <out)-$(tail -n 1 out | grep -o '"row":"[^"]*"')" = \
  '0-360-"row":"elsewhere.csv:360"'
long=$(printf 'good %.0s' {1..40})
printf '%s\n' n,text "1,$long" '2,"bad, film"' >new.csv
run "$build/classify" ./run1 --csv new.csv
expect "without classes, and texts are whole" test "$(sed -n '2p' out | cut -d, -f1)-$(grep -c '^"bad, film",' out)" = "$long-1"
run "$build/classify" ./run1 new.csv
expect_line "an answer names the row" '^new.csv:2: '
printf 'a,b,c\n1,2,3\n' >wrong.csv
run "$build/classify" ./run1 wrong.csv new.csv
expect "a table without texts is named, others are answered" test "$code-$(wc -l <out)-$(grep -c 'wrong.csv has no column' err)" = 1-3-1

# --- the page ----------------------------------------------------------------------------------------------------------------
ranks 1 train_texts "${settings[@]}" --data hard.csv --epochs 1 --run ./hard
expect "train hard" test "$code" = 0
"$python" "$here/texts.py" page hard || complain "the page"

# --- export ------------------------------------------------------------------------------------------------------------------
printf '%s\n' 'sample = [12]' 'layers = [{type = "embedding", features = 4}, {type = "global_average_pool"}, ' \
  '{name = "out", type = "dense", features = "$classes"}]' >mean.toml
ranks 1 train_texts "${settings[@]}" --data hard.csv --epochs 2 --optimizer adam --lr 0.1 --ema 0 --model mean.toml --run ./mean
expect "train mean" test "$code" = 0
for format in onnx safetensors; do ranks 1 export_model ./mean "mean.$format"; done
expect "export" test "$code" = 0
"$build/classify" ./mean - --json <lines.txt >answers.jsonl 2>raw
run "$python" "$here/texts.py" example mean.onnx answers.jsonl lines.txt
expect "the example: $(cat out)" test "$code" = 0
finish
