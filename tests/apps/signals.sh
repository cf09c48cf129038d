#!/usr/bin/env bash
# SIGTERM, SIGUSR1 and SIGINT on any one rank stop all of them after the same step: with a checkpoint and exit code 75
# that asks for a requeue, or with a plain failure where there is nowhere to save to.
# usage: signals.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"

# SIGNAL RANK
expect_checkpoint() {
  local where=$folder/$1$2 stopped
  start 3 --global-batch 12 --checkpoint-dir "$where"
  await 30 has_done 2
  kill -"$1" "$(pid_of_rank "$2")"
  collect
  expect "SIG$1 to rank $2: exit code 75" test "$code" = 75
  expect "SIG$1 to rank $2: nothing on stderr" test ! -s "$folder/err"
  stopped=$(sed -n 's/^stopped on request after step \([0-9]*\): the same command goes on from there$/\1/p' "$folder/out")
  expect_line "SIG$1 to rank $2: says so, once" "^stopped on request after step"
  expect_files "SIG$1 to rank $2: one checkpoint, of that step" "$where" "$(basename "$(step_file . "${stopped:-0}")")"
  expect "SIG$1 to rank $2: no step after it" bash -c "! grep -q 'step $((stopped + 1))/' '$folder/out'"
}
expect_checkpoint USR1 2
expect_checkpoint TERM 1
expect_checkpoint TERM 0
expect_checkpoint INT 1

# Again and again: one checkpoint, one line.
start 2 --checkpoint-dir "$folder/storm"
await 30 has_done 2
for _ in 1 2 3 4 5; do
  for rank in 0 1; do kill -USR1 "$(pid_of_rank $rank)" 2>/dev/null; done
done
collect
expect "a storm of signals: exit code 75" test "$code" = 75
expect "a storm of signals: one line" test "$(grep -c '^stopped on request' "$folder/out")" = 1

# mpirun passes SIGUSR1 on to all ranks: what a batch script does.
start 2 --checkpoint-dir "$folder/forwarded"
await 30 has_done 2
kill -USR1 "$(children "$launcher")"
collect
expect "SIGUSR1 to mpirun: exit code 75" test "$code" = 75

start 2
await 30 has_done 2
kill -TERM "$(pid_of_rank 1)"
collect
expect_error "without --checkpoint-dir" 1 '^train_cifar: stopped on request after step [0-9]+; nothing was saved, for there is no --checkpoint-dir$'

# A request that comes in the last step changes nothing: the run is complete.
train 2 --steps 3 --checkpoint-dir "$folder/complete"
expect_files "complete" "$folder/complete" step-0000000003.h5
finish
