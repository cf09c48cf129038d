#!/usr/bin/env bash
# A rank that dies ends all within ten seconds, and one that hangs within --timeout: with one named cause, whole
# checkpoints, and no process left behind.
# usage: killed_rank.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"

# SIGNAL RANK OPTIONS...
expect_end() {
  local signal=$1 rank=$2 end pids pid every=1 verdict="died at step [0-9]+"
  shift 2
  # A checkpoint may take long without being a hang: not to stop in one, there are fewer.
  [[ $signal != STOP ]] || every=100 verdict='is stopped, by a signal or a debugger, at step [0-9]+'
  rm -rf "$folder/checkpoints"
  start 3 --global-batch 12 --checkpoint-every "$every" --keep 0 --checkpoint-dir "$folder/checkpoints" "$@"
  await 30 has_done 4
  pids=$(for r in 0 1 2; do pid_of_rank $r; done)
  expect "three ranks run" test "$(wc -w <<<"$pids")" = 3
  end=$((SECONDS + 10))
  pid=$(pid_of_rank "$rank")
  kill -"$signal" "$pid"
  [[ $signal != STOP ]] || await 2 grep -q '^State:.*stopped' "/proc/$pid/status"
  collect
  expect "SIG$signal to rank $rank: all end within 10 s" test $SECONDS -le $end
  expect "SIG$signal to rank $rank: a failure" test "$code" -ne 0
  expect "SIG$signal to rank $rank: not a request to be requeued" test "$code" -ne 75
  expect "SIG$signal to rank $rank: the rank is named, once" test "$(grep -cE "rank $rank .*$verdict" "$folder/err")" = 1
  expect "SIG$signal to rank $rank: nobody else speaks" test "$(grep -cE 'rank [0-9]+ \(' "$folder/err")" = 1
  for pid in $pids; do
    await 3 bash -c "! kill -0 $pid" || complain "SIG$signal to rank $rank: process $pid is still there"
  done
  expect "checkpoints were written" test $every != 1 -o -e "$folder/checkpoints/step-0000000003.h5"
  run "$build/train_cifar" "${small[@]}" --global-batch 12 --shards 3 --steps 4 --check --checkpoint-dir "$folder/checkpoints"
  expect "SIG$signal to rank $rank: the newest checkpoint is whole" bash -c "[[ $code == 0 ]] && ! grep -q '^warning' '$folder/out'"
}
expect_end KILL 1
expect_end KILL 0 --reducer tree
expect_end KILL 2 --reducer mpi --progress thread
expect_end SEGV 1 --reducer halving_doubling --progress wait
expect_end STOP 1 --timeout 2
expect_end STOP 0 --timeout 2 --reducer tree --progress thread
finish
