#!/usr/bin/env bash
# The gradient of an embedding, summed as the rows of the words that are there: the bits of the dense sum, on any number of
# ranks, under every policy, clipped or not.
# usage: embedding_gradient.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py

wires() {  # FOLDER RANKS HOW OPTIONS...: four steps that must end well
  ranks "$2" train_reuters "${small[@]}" --steps 4 --shards 4 --lr 0.01 --embedding-gradient "$3" --checkpoint-dir "$folder/$1" "${@:4}"
  expect "mpirun -np $2 ./train_reuters ${*:3}" test "$code" = 0
}

wires dense 2 dense
expect_line "dense when asked to be" '^embedding dense 30982'
while read -r count progress reducer; do
  wires rows "$count" rows --progress "$progress" --reducer "$reducer"
  expect_line "rows when asked to be" '^embedding rows 30982'
  expect_same_state "rows on $count ranks, $progress" "$(step_file "$folder/dense" 4)" "$(step_file "$folder/rows" 4)"
  rm -rf "$folder/rows"
done <<<$'1 wait shared\n2 thread tree\n4 poll tree'
wires dense_clipped 1 dense --clip-norm 0.1
wires rows_clipped 2 rows --clip-norm 0.1
expect_same_state "clipped" "$(step_file "$folder/dense_clipped" 4)" "$(step_file "$folder/rows_clipped" 4)"

# Rows keep to the canonical order whatever the reducer does.
wires mpi 4 rows --reducer mpi
expect_line "other bits than dense ones are noted" '^note embedding rows canonical mpi'
wires mpi 4 dense --reducer mpi
expect_line "and so is dense after rows" '^note mpi 4.ranks rows canonical'

# Few words of many: rows, whatever the number of ranks.
ranks 2 train_reuters --threads 1 --check
expect_line "chosen by cost" '^embedding rows 847 [0-9.]+.ms dense'
ranks 1 train_mnist --embedding-gradient rows --threads 1 --check
expect_line "nothing to sum so" '^note --embedding-gradient'
finish
