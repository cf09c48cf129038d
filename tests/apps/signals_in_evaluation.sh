#!/usr/bin/env bash
# A request to stop in an evaluation ends it within a batch. The resumed run does the evaluation, so its metrics are those of a
# run that never stopped. evaluate ends as promptly.
# usage: signals_in_evaluation.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
limit=200  # a run of two evaluations, on a busy machine

# Stopped in the one of step 2, then in the last one, then not at all.
evaluating=(--shards 2 --steps 3 --eval-every 2)
train 2 "${evaluating[@]}" --run "$folder/whole"
for step in 2 3; do
  start 2 "${evaluating[@]}" --run "$folder/parts"
  await 150 has_done $step
  kill -TERM "$(pid_of_rank 1)"
  collect
  expect_error "SIGTERM in the evaluation of step $step" 75 "^train_cifar: stopped on request after step $step, before its evaluation was done"
done
train 2 "${evaluating[@]}" --run "$folder/parts"
expect_line "the last evaluation is done, no step is trained" '^trained 0'
train 2 "${evaluating[@]}" --run "$folder/parts"
expect_line "then it is complete" '^complete'
expect "metrics are those of a run that never stopped" python3 - "$folder/whole/metrics.jsonl" "$folder/parts/metrics.jsonl" <<'PYTHON'
import json
import sys

def numbers(path):
    with open(path) as lines:
        return [[line.get(name) for name in ("kind", "step", "epoch", "loss", "penalty", "top1", "top5")]
                for line in map(json.loads, lines) if line["kind"] in ("train", "evaluation")]

one, other = map(numbers, sys.argv[1:])
if len(one) != 5 or one != other:
    sys.exit("%s\n%s" % (one, other))
PYTHON

# evaluate, asked in the middle of it, and between two looks into a folder.
file=$(step_file "$folder/whole" 3)
launch 2 evaluate --threads 1 "$file"
await 150 rank_takes_signals 1
kill -TERM "$(pid_of_rank 1)"
collect
expect_error "SIGTERM to evaluate" 1 '^evaluate: stopped evaluation'
for instant in first later; do
  launch 2 evaluate --threads 1 --follow --interval 1000 --no-confusion "$folder/whole"
  await 150 rank_takes_signals 1
  [[ $instant == first ]] || await 150 grep -q '^step 3' "$folder/out"
  kill -INT "$(pid_of_rank 1)"
  collect
  expect "SIGINT to evaluate --follow, $instant: exit code 0" test "$code" = 0
done
expect "the score that was there before" grep -q '^step 3' "$folder/out"
finish
