#!/usr/bin/env bash
# A run that is killed in an evaluation does it again when it resumes. The metrics contain it once, even if the run was killed
# between the evaluation's line and its checkpoint.
# usage: killed_in_evaluation.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
limit=200  # a run of an evaluation, on a busy machine

run_of_one=(--shards 2 --steps 1 --eval-every 1 --run "$folder/run")
start 2 "${run_of_one[@]}"
await 150 rank_takes_signals 1
pid=$(pid_of_rank 1)
await 150 grep -q "step 1/1 saved" "$folder/out"
kill -KILL "$pid"
collect
expect "it was killed before the end of its evaluation" test "$(grep -c "step 1/1 evaluation" "$folder/out")" = 0
expect "the step is in the metrics" grep -q '"kind":"train"' "$folder/run/metrics.jsonl"
expect "its evaluation is not" test "$(grep -c '"kind":"evaluation"' "$folder/run/metrics.jsonl")" = 0

printf '{"kind":"evaluation","step":1,"top1":0.99}\n' >>"$folder/run/metrics.jsonl"
train 2 "${run_of_one[@]}"
expect_line "the evaluation is done, no step is trained" '^trained 0'
expect_line "it is there" 'step.1/1 evaluation top-1'
count() { grep -c "\"kind\":\"$1\".*\"step\":1,.*${2-}" "$folder/run/metrics.jsonl"; }
expect "the metrics contain it once" test "$(count evaluation)-$(count evaluation '"samples":10000')" = 1-1
expect "and of the step" test "$(count train)" = 1
train 2 "${run_of_one[@]}"
expect_line "then it is complete" '^complete'
finish
