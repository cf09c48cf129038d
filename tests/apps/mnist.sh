#!/usr/bin/env bash
# train_mnist: generated digits and IDX files, bitwise identical on any number of ranks. Errors about options that do not fit
# each other name those that do.
# usage: mnist.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"

digits() {  # RANKS OPTIONS...: a run that must end well
  ranks "$1" train_mnist "${small[@]}" "${@:2}"
  expect "mpirun -np $1 ./train_mnist ${*:2}" test "$code" = 0
}

# --- without data --------------------------------------------------------------------------------------------------------
digits 2 --steps 25 --shards 2 --lr 0.05 --checkpoint-every 10 --run "$folder/two"
expect_line "the generated set" '^data digits 60000'
expect_line "which is not the real one" 'made.up|generated --data scripts/get_data.sh mnist'
expect_line "its model" '^model deep_mnist 3274634'
losses=$(grep '"kind":"train"' "$folder/two/metrics.jsonl" | sed 's/.*"loss":\([0-9.e-]*\).*/\1/')
expect "the loss falls to less than half" awk '{ x[NR] = $1 } END {
  exit !(NR == 25 && x[NR] + x[NR-1] + x[NR-2] < 0.5 * (x[1] + x[2] + x[3])) }' <<<"$losses"
if "${python:=python3}" -c 'import h5py' 2>/dev/null; then
  digits 1 --steps 20 --shards 2 --lr 0.05 --run "$folder/one"
  expect_same_state "one rank computes the same bits" "$(step_file "$folder/one" 20)" "$(step_file "$folder/two" 20)"
fi

# --- IDX files -----------------------------------------------------------------------------------------------------------
data=$folder/data
mkdir "$data"
number() { printf '%b' "$(printf '\\x%02x' $(($1 >> 24)) $(($1 >> 16 & 255)) $(($1 >> 8 & 255)) $(($1 & 255)))"; }
for part in train:200 t10k:100; do
  count=${part#*:}
  { number 2051; number "$count"; number 28; number 28; head -c $((784 * count)) "$build/train_mnist"; } >"$data/${part%:*}-images-idx3-ubyte"
  { number 2049; number "$count"; for ((i = 0; i < count; i++)); do printf '%b' "\\x0$((i % 10))"; done; } |
    gzip >"$data/${part%:*}-labels-idx1-ubyte.gz"
done
digits 2 --data "$data" --steps 3 --eval-every 3 --run "$folder/real"
expect_line "the files" "^data MNIST 200 $data"
expect_line "all test images" 'evaluation top-1 100.samples'
ranks 2 evaluate --threads 1 --data "$data" "$folder/real"
expect_line "classes in the table of confusions" '^true 0 1 8 9'
expect "its ten rows" test "$(grep -cE '^ +[0-9] .* %$' "$folder/out")" = 10
gzip -d "$data"/*.gz
digits 2 --data "$data" --steps 4 --run "$folder/real"
expect_line "files that were unpacked are the same data" '^resumed step.3 4'

# --- options that do not fit each other ---------------------------------------------------------------------------------------
refused() {  # PATTERN PROGRAM OPTIONS...
  ranks 2 "$2" "${small[@]}" "${@:3}"
  expect_error "${*:2}" 2 "^$2: $1"
}
unfit='deep_mnist 1x28x28x1 1x24x24x3 --model tutorial --dataset'
refused "$unfit" train_cifar --model deep_mnist --check
refused "$unfit" train_cifar --model deep_mnist --steps 1 --run "$folder/unfit"
expect "a refused run leaves no folder" test ! -e "$folder/unfit"
refused '--dataset mnist --data scripts/get_data.sh' train_mnist --dataset mnist
refused '--dataset digits --data' train_mnist --dataset digits --data "$data"
refused 'step-0000000004.h5 mnist digits --dataset --data' train_mnist --resume "$(step_file "$folder/real" 4)"
refused 'step-[0-9]*.h5 digits synthetic --dataset' train_cifar --resume "$(step_file "$folder/two" 25)"
head -c 100 "$data/t10k-labels-idx1-ubyte" >"$folder/short" && mv "$folder/short" "$data/t10k-labels-idx1-ubyte"
ranks 2 train_mnist "${small[@]}" --data "$data" --steps 1
expect_error "a short file" 65 "^train_mnist: $data/t10k-labels-idx1-ubyte 100 108 truncated scripts/get_data.sh mnist"

# --- options that do ----------------------------------------------------------------------------------------------------
digits 1 --model tutorial --steps 1
expect_line "another model takes these images too" '^model tutorial'
digits 1 --dataset synthetic --check
expect_line "another data set brings its own model" '^model tutorial 1068298'
finish
