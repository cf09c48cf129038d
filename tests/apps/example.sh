#!/usr/bin/env bash
# The example of a config file is understood as it stands, and its values reach the run.
# usage: example.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
example=$here/../../apps/example.toml
cd "$folder" || exit 1  # its folders are relative ones

run mpirun -np 2 "$build/train_cifar" --config "$example" --threads 1 --steps 4 --global-batch 16 --eval-every 0
expect "the example trains" test "$code" = 0
expect_line "its optimizer and learning rate" '^optimizer sgd momentum.0.9'
expect_line "its schedule" '^optimizer lr.0.01 cosine'
expect "its folder" test -s runs/example/metrics.jsonl
expect_files "its checkpoint folder" runs/example/checkpoints step-0000000004.h5

# Every option that it could have: a name that --help-all does not know would have been refused above, but not in a comment.
sed -n 's/^# *\([a-z-]*\) = .*/--\1/p' "$example" >"$folder/names"
run "$build/train_cifar" --help-all
expect "it names other options in comments" test -s "$folder/names"
while read -r name; do expect "$name is an option" grep -q -- "$name " "$folder/out"; done <"$folder/names"
finish
