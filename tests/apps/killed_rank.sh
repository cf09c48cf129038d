#!/usr/bin/env bash
# The death of one rank ends all within ten seconds, with one named cause, and leaves whole checkpoints and no process.
# usage: killed_rank.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"

# SIGNAL RANK OPTIONS...
expect_end() {
  local signal=$1 rank=$2 began pids pid file
  shift 2
  rm -rf "$folder/checkpoints"
  start 3 --global-batch 12 --checkpoint-every 1 --keep 0 --checkpoint-dir "$folder/checkpoints" "$@"
  await 30 has_done 4
  pids=$(for r in 0 1 2; do pid_of_rank $r; done)
  expect "three ranks run" test "$(wc -w <<<"$pids")" = 3
  began=$SECONDS
  kill -"$signal" "$(pid_of_rank "$rank")"
  collect
  expect "SIG$signal to rank $rank: all end within 10 s" test $((SECONDS - began)) -le 10
  expect "SIG$signal to rank $rank: a failure" test "$code" -ne 0
  expect "SIG$signal to rank $rank: not a request to be requeued" test "$code" -ne 75
  expect "SIG$signal to rank $rank: the dead rank is named" grep -qE "rank $rank .*died at step [0-9]+" "$folder/err"
  expect "SIG$signal to rank $rank: in one line" test "$(wc -l <"$folder/err")" = 1
  for pid in $pids; do
    await 3 bash -c "! kill -0 $pid" || complain "SIG$signal to rank $rank: process $pid is still there"
  done
  expect "checkpoints were written" test -e "$folder/checkpoints/step-0000000003.h5"
  run "$build/train_cifar" "${small[@]}" --global-batch 12 --shards 3 --steps 4 --check --checkpoint-dir "$folder/checkpoints"
  expect "SIG$signal to rank $rank: the newest checkpoint is whole" bash -c "[[ $code == 0 ]] && ! grep -q '^warning' '$folder/out'"
}
expect_end KILL 1
expect_end KILL 0 --reducer tree
expect_end KILL 2 --reducer mpi --progress thread
expect_end SEGV 1 --reducer halving_doubling --progress wait
finish
