#!/usr/bin/env bash
# SIGTERM, SIGUSR1, SIGINT and SIGHUP on any one rank stop all of them after the same step: with a checkpoint and exit
# code 75 that asks for a requeue, or with a plain failure where there is nowhere to save to. And no signal meets the
# stack of a kernel.
# usage: signals.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"

# SIGNAL RANK
expect_checkpoint() {
  local where=$folder/$1$2 stopped
  start 3 --global-batch 12 --run "$where"
  await 60 has_done 2
  kill -"$1" "$(pid_of_rank "$2")"
  collect
  expect_error "SIG$1 to rank $2" 75 '^train_cifar: stopped on request after step'
  stopped=$(sed -n 's/^train_cifar: stopped on request after step \([0-9]*\): the same command resumes there$/\1/p' "$folder/err")
  expect_files "SIG$1 to rank $2: one checkpoint, of that step" "$where/checkpoints" "$(basename "$(step_file . "${stopped:-0}")")"
  expect "SIG$1 to rank $2: no step after it" bash -c "! grep -q 'step $((stopped + 1))/' '$folder/out'"
}
expect_checkpoint USR1 2
expect_checkpoint TERM 1
expect_checkpoint TERM 0
expect_checkpoint INT 1
expect_checkpoint HUP 0

# Again and again: one checkpoint, one line.
start 2 --run "$folder/storm"
await 60 has_done 2
for _ in 1 2 3 4 5; do
  for rank in 0 1; do kill -USR1 "$(pid_of_rank $rank)" 2>/dev/null; done
done
collect
expect_error "a storm of signals" 75 'stopped on request'

# mpirun passes SIGUSR1 on to all ranks, as in a batch script.
start 2 --run "$folder/forwarded"
await 60 has_done 2
kill -USR1 "$(children "$launcher")"
collect
expect "SIGUSR1 to mpirun: exit code 75" test "$code" = 75

start 2
await 60 has_done 2
kill -TERM "$(pid_of_rank 1)"
collect
expect_error "without --run" 1 '^train_cifar: stopped step.[0-9]+ saved'


# --- whose stack a signal meets ------------------------------------------------------------------------------------------
# All threads block these signals (one receives them, and shows 0 while it waits), and no handler is left.
start 2 --threads 2 --reducer tree --progress thread
await 60 has_done 2
pid=$(pid_of_rank 1)
expect "all threads but one block the signals" test "$(cat "/proc/$pid/task/"*/status | awk '/^SigBlk/ && !/420[23]$/ { ++n } END { print n }')" = 1
caught=$(awk '/^SigCgt/ { print $2 }' "/proc/$pid/status")
crashes=$((1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 10)) internal=$((1 << 31 | 1 << 32))  # ILL .. FPE, SEGV; of glibc
expect "no handler but for crashes ($caught)" test $((0x$caught & ~(crashes | internal))) = 0
kill -TERM "$pid"
kill -INT "$pid"
collect
expect "SIGTERM and SIGINT: a failure without --run" test "$code" = 1

# Under nohup, even if a library has installed a handler for SIGHUP.
: >"$folder/out"
(trap '' HUP && exec "$build/train_cifar" "${small[@]}" --steps 100000) >"$folder/out" 2>"$folder/raw" </dev/null &
pid=$!
await 60 has_done 2
kill -HUP $pid
await 60 eval "has_done 30 || ! kill -0 $pid"
expect "SIGHUP under nohup: the run goes on" kill -TERM $pid
code=0
wait $pid || code=$?
expect "SIGHUP under nohup: until it is asked otherwise" test "$code" = 1

start 2
await 60 has_done 2
pid=$(pid_of_rank 1)
kill -INT "$pid"
kill -INT "$pid" 2>/dev/null
while kill -INT "$pid" 2>/dev/null; do sleep 0.05; done  # two at once may be one
collect
expect "a second SIGINT ends at once" test "$code" -ne 75

# --- in a checkpoint ----------------------------------------------------------------------------------------------------
start 2 --checkpoint-every 1 --keep 0 --run "$folder/saving"
await 60 has_done 3
kill -USR1 "$(pid_of_rank 0)"
collect
expect "a request while checkpoints are written: exit code 75" test "$code" = 75
stopped=$(sed -n 's/^train_cifar: stopped on request after step \([0-9]*\):.*/\1/p' "$folder/err")
expect "the last checkpoint is that of the last step" test "$(find "$folder/saving/checkpoints" -name '*.h5' | sort | tail -n 1)" = "$(step_file "$folder/saving" "${stopped:-0}")"
train 2 --steps $((stopped + 1)) --run "$folder/saving"
expect_line "and whole" "^resumed step.$stopped"

# A request that comes in the last step changes nothing: the run is complete.
train 2 --steps 3 --run "$folder/complete"
expect_files "complete" "$folder/complete/checkpoints" step-0000000003.h5
finish
