#!/usr/bin/env bash
# A wrong option ends every benchmark with exit code 2 and one line on stderr.
# usage: bench_options.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
[[ -x $build/bench_step ]] || skip "no benchmarks (built without LOCKSTEP_BENCH)"

for program in cost_model bench_layer bench_step bench_allreduce; do
  run "$build/$program" --no-such-option
  expect_error "$program" 2 "^$program: --no-such-option"
  run "$build/$program" --help
  expect "the help of $program" test "$code" = 0
done
first_step() { run env LOCKSTEP_BUILD="$build" RUNS="$1" RANKS=1 "$here/../../bench/first_step.sh" "${@:2}"; }
first_step 1 --help
expect_line "the help of first_step.sh" '^usage: first_step.sh'
first_step 2 --model resnet_small
expect_line "the first step is timed" '^median [0-9.]+ 2.runs'
first_step 1 --no-such-option
expect "its run fails with the reason" test "$code-$(grep -c 'no-such-option' "$folder/err")-$(wc -c <"$folder/out")" = 1-1-0
run "$build/bench_layer" --benchmark_format=xml
expect_error "a wrong format" 2 '^bench_layer: --benchmark_format=xml'
run "$build/cost_model" --hosts 1
expect_error "a wrong value" 2 '^cost_model: --hosts'
for bad in --gbit=nan --gbit=1e400 --latency-us=-1 --hosts= --compute-ms=x --no= -- 4; do
  run "$build/cost_model" --hosts 4 $bad
  expect_error "cost_model $bad" 2 "^cost_model:"
done
run "$build/cost_model" --gbit 5
expect_error "an option without --hosts" 2 '^cost_model: --gbit --hosts'
for bad in --min= --min=K --min=3 --max=5G --max=1.5M --factor=1 --iters=-1 --type=f64 --reducers=, --check=1; do
  ranks 2 bench_allreduce $bad
  expect_error "bench_allreduce $bad" 2 '^bench_allreduce:'
done
ranks 1 bench_allreduce --max 8G
expect_error "a size with its unit" 2 '^bench_allreduce: --max "8G" 4G'
ranks 2 bench_step --warmup=-1
expect_error "a wrong number of one benchmark" 2 '^bench_step: --warmup'
run "$build/cost_model" --hosts 4
expect_line "a prediction" '^tutorial 10 4'
expect "names, units and values have the same columns" awk 'NR == 1 { n = NF } { bad += NF != n } END { exit bad || NR != 4 }' "$folder/out"
run "$build/cost_model" --hosts 4 --network deep_mnist --compute-ms 20 --json
expect "a chosen network as JSON" test "$(python3 -c 'import json; print(json.load(open("'"$folder/out"'"))["network"])')" = deep_mnist
run "$build/cost_model" --network keras
expect_error "a network of unknown speed" 2 '^cost_model: --network keras --compute-ms'
run "$build/bench_layer" --json --benchmark_filter='24x24, 3 .*/fp32/direct/forward' --benchmark_min_time=0.001
expect "bench_layer as JSON" python3 -c 'import json; json.load(open("'"$folder/out"'"))["benchmarks"][0]'
finish
