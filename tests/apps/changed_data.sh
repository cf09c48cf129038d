#!/usr/bin/env bash
# Data files that change during a run: one line that names the file, exit code 1 on all ranks, no half-written file.
# usage: changed_data.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
small_checkpoints
data=$folder/data
file=$data/data_batch_2.bin

make_data() {  # whole files in which every label is 0 and every pixel black
  mkdir -p "$data"
  for part in data_batch_{1..5} test_batch; do truncate -s 30730000 "$data/$part.bin"; done
  printf '%s\n' airplane automobile bird cat deer dog frog horse ship truck >"$data/batches.meta.txt"
}
start_on_data() {
  rm -rf "$folder/run"
  start 2 --data "$data" --steps 1000000 --checkpoint-every 10 --run "$folder/run"
  await 60 has_done 12
}

make_data
start_on_data
: >"$file"
await 40 ended
collect
expect_error "a file that is truncated" 65 "^train_cifar: $file truncated"
expect "nothing half written" bash -c "! compgen -G '$folder/run/checkpoints/*.tmp-*'"
make_data
train 1 --data "$data" --check --steps 1000000 --run "$folder/run"
expect_line "it resumes with the file restored" '^resumed'

start_on_data
touch "$file"
kill -USR1 "$(pid_of_rank 0)"
collect
expect "another time stamp is no change" test "$code" = 75

start_on_data
printf '\x01' | dd of="$file" bs=1 seek=1000 conv=notrunc status=none
await 40 ended
collect
expect_error "other content of the same size" 65 "^train_cifar: $file content"
finish
