#!/usr/bin/env bash
# SIGTERM, SIGUSR1, SIGINT and SIGHUP on any one rank stop all of them at the same place, from the first line of main()
# on: in the start-up, after a step, in an evaluation. With exit code 75 that asks for a requeue, after a checkpoint if
# there is anything to save; or with a plain failure where there is nowhere to save to.
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
expect_checkpoint HUP 0

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


# --- whose stack a signal meets ------------------------------------------------------------------------------------------
# All threads block what is asked with (one of them takes it, and shows 0 while it waits); nobody's handler comes back.
start 2 --threads 2 --reducer tree --progress thread
await 30 has_done 2
pid=$(pid_of_rank 1)
expect "all threads but one block the signals" test "$(cat "/proc/$pid/task/"*/status | awk '/^SigBlk/ && !/420[23]$/ { ++n } END { print n }')" = 1
caught=$(awk '/^SigCgt/ { print $2 }' "/proc/$pid/status")
crashes=$((1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 10)) internal=$((1 << 31 | 1 << 32))  # ILL .. FPE, SEGV; of glibc
expect "no handler but for crashes ($caught)" test $((0x$caught & ~(crashes | internal))) = 0
kill -TERM "$pid"
kill -INT "$pid"
collect
expect "SIGTERM and SIGINT: a failure without --checkpoint-dir" test "$code" = 1
start 2
await 30 has_done 2
pid=$(pid_of_rank 1)
kill -INT "$pid"
kill -INT "$pid" 2>/dev/null
while kill -INT "$pid" 2>/dev/null; do sleep 0.05; done  # two at once may be one
collect
expect "a second SIGINT ends at once" test "$code" -ne 75

# --- in the start-up ----------------------------------------------------------------------------------------------------
early='^train_cifar: stopped on request before the first step: there is nothing to save yet'
# SIGNAL SECONDS: so long after the start of a run of one rank.
expect_early() {
  local pid ready=no
  "$build/train_cifar" "${small[@]}" --checkpoint-dir "$folder/early" >"$folder/out" 2>"$folder/raw" </dev/null &
  pid=$!
  sleep "$2"
  ! takes_signals $pid 2>/dev/null || ready=yes
  kill -"$1" $pid
  code=0
  wait $pid 2>/dev/null || code=$?
  own_words <"$folder/raw" >"$folder/err"
  if [[ $ready == no ]] && ((code > 128)); then return; fi  # before main()
  came_through=$((came_through + 1))
  expect "SIG$1 after $2 s: exit code 75" test "$code" = 75
  expect "SIG$1 after $2 s: one line" test "$(cat "$folder/err" "$folder/out" | grep -c 'stopped on request')" = 1
  rm -rf "$folder/early"
}
came_through=0
for seconds in 0 0.05 0.1 0.2 0.4; do
  expect_early USR1 $seconds
  expect_early TERM "$seconds"
done
expect "some of 10 requests came after main() had begun ($came_through)" test $came_through -ge 3

# SIGNAL RANK: at the first moment of one of two ranks.
expect_early_end() {
  start 2 --checkpoint-dir "$folder/early"
  await 30 rank_takes_signals "$2"
  kill -"$1" "$(pid_of_rank "$2")"
  collect
  expect_error "SIG$1 to rank $2 at start-up" 75 "$early"
  expect "nothing is saved" test -z "$(find "$folder/early" -name '*.h5' 2>/dev/null)"
  rm -rf "$folder/early"
}
expect_early_end USR1 1
expect_early_end TERM 0

# --- in a checkpoint ----------------------------------------------------------------------------------------------------
start 2 --checkpoint-every 1 --keep 0 --checkpoint-dir "$folder/saving"
await 30 has_done 3
kill -USR1 "$(pid_of_rank 0)"
collect
expect "a request while checkpoints are written: exit code 75" test "$code" = 75
stopped=$(sed -n 's/^stopped on request after step \([0-9]*\):.*/\1/p' "$folder/out")
expect "the last checkpoint is that of the last step" test "$(find "$folder/saving" -name '*.h5' | sort | tail -n 1)" = "$(step_file "$folder/saving" "${stopped:-0}")"
train 2 --steps $((stopped + 1)) --checkpoint-dir "$folder/saving"
expect_line "and whole" "^resumed +from .* at step $stopped of"

# --- in an evaluation ----------------------------------------------------------------------------------------------------
# Stopped in the one of step 2, in the last one, in that again, and in none: what is in the metrics is as undisturbed.
evaluating=(--shards 2 --steps 4 --eval-every 2)
train 2 "${evaluating[@]}" --checkpoint-dir "$folder/whole/c" --log-dir "$folder/whole/l"
for step in 2 4 4; do
  start 2 "${evaluating[@]}" --checkpoint-dir "$folder/parts/c" --log-dir "$folder/parts/l"
  if [[ $step == 4 && -e $(step_file "$folder/parts/c" 4) ]]; then
    await 30 grep -q '^resumed ' "$folder/out"
  else
    await 30 has_done $step
  fi
  kill -TERM "$(pid_of_rank 1)"
  collect
  expect "SIGTERM in the evaluation of step $step: exit code 75" test "$code" = 75
  expect_line "SIGTERM in the evaluation of step $step: says so" "^stopped on request after step $step, before its evaluation was done: the same command goes on from there"
done
train 2 "${evaluating[@]}" --checkpoint-dir "$folder/parts/c" --log-dir "$folder/parts/l"
expect_line "the last evaluation is made up for, no step trained" '^trained +0 steps'
train 2 "${evaluating[@]}" --checkpoint-dir "$folder/parts/c" --log-dir "$folder/parts/l"
expect_line "then it is complete" '^complete already'
expect "metrics are those of a run that never stopped" python3 - "$folder/whole/l/metrics.jsonl" "$folder/parts/l/metrics.jsonl" <<'PYTHON'
import json
import sys

def numbers(path):
    with open(path) as lines:
        return [[line.get(name) for name in ("kind", "step", "epoch", "loss", "cross_entropy", "top1", "top5")]
                for line in map(json.loads, lines) if line["kind"] in ("train", "evaluation")]

one, other = map(numbers, sys.argv[1:])
if len(one) != 6 or one != other:
    sys.exit("%s\n%s" % (one, other))
PYTHON

# A request that comes in the last step changes nothing: the run is complete.
train 2 --steps 3 --checkpoint-dir "$folder/complete"
expect_files "complete" "$folder/complete" step-0000000003.h5
finish
