#!/usr/bin/env bash
# A wrong option ends every benchmark with exit code 2 and one line on stderr.
# usage: bench_options.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
[[ -x $build/bench_step ]] || skip "no benchmarks (built without LOCKSTEP_BENCH)"

for program in predict bench_layer bench_convolution bench_step bench_allreduce; do
  run "$build/$program" --no-such-option
  expect_error "$program" 2 "^$program: --no-such-option"
  run "$build/$program" --help
  expect "the help of $program" test "$code" = 0
done
for program in bench_layer bench_convolution; do
  run "$build/$program" --benchmark_format=xml
  expect_error "$program: a wrong format" 2 "^$program: --benchmark_format=xml"
done
run "$build/predict" --hosts 1
expect_error "a wrong value" 2 '^predict: --hosts'
for bad in --gbit=nan --gbit=1e400 --latency-us=-1 --hosts= --compute-ms=x --no= -- 4; do
  run "$build/predict" --hosts 4 $bad
  expect_error "predict $bad" 2 "^predict:"
done
run "$build/predict" --gbit 5
expect_error "an option without --hosts" 2 '^predict: --gbit --hosts'
for bad in --min= --min=K --min=3 --max=5G --max=1.5M --factor=1 --iters=-1 --type=f64 --reducers=, --check=1; do
  ranks 2 bench_allreduce $bad
  expect_error "bench_allreduce $bad" 2 '^bench_allreduce:'
done
ranks 2 bench_step --warmup=-1
expect_error "a wrong number of one benchmark" 2 '^bench_step: --warmup'
run "$build/predict" --hosts 4
expect_line "a prediction" '^tutorial 10 4'
finish
