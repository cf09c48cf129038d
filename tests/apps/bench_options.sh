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
run "$build/predict" --hosts 4
expect_line "a prediction" '^tutorial 10 4'
finish
