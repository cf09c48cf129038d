#!/usr/bin/env bash
# bench_step: the trainer's own step, with its options and its errors.
# usage: bench_step.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
[[ -x $build/bench_step ]] || skip "no bench_step (built with LOCKSTEP_BENCH)"
short=(--threads 1 --global-batch 4 --steps 2 --warmup 0 --no-bare)

ranks 2 bench_step "${short[@]}" --cutout 8 --mixup 0.2 --crop-padding 2 --tf32
expect "it measures" test "$code" = 0
expect_line "images of a second" '^images_per_s [0-9.]+'
run "$build/bench_step" "${short[@]}" --profile --model resnet_small --device cpu
expect_line "the limits of the machine" '^limits GFLOP/s GB/s'
expect_line "a layer" '^block1/conv1 Winograd'
expect_line "the other parts" 'optimizer wall'
run "$build/bench_step" "${short[@]}" --precision fp16 --device cpu
expect_error "no such precision" 2 '^bench_step: --precision fp16 --precision.bf16'
run "$build/bench_step" "${short[@]}" --cutout 33
expect_error "no such augmentation" 2 '^bench_step: --cutout 33'
run "$build/bench_step" --help
expect_line "its help" '--no-bare No.measurement'
finish
