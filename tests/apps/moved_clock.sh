#!/usr/bin/env bash
# Clocks that are set an hour forward and back while programs run: nothing of a living process is removed, and nothing waits
# for the hour. Skipped without a C compiler.
# usage: moved_clock.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
need_moved_clock
small_checkpoints
small_data "$folder/data"

moves() {  # forward and back, until it is killed
  while :; do
    move 3600 0
    sleep 0.2
    move -3600 0
    sleep 0.2
  done
}

# --- training -------------------------------------------------------------------------------------------------------------
preloaded start 2 --steps 1000000 --checkpoint-every 1s --run "$folder/run"
await 60 has_done 5
for seconds in 3600 -3600 0; do
  move "$seconds" 0
  saved=$(ls "$folder/run/checkpoints")
  await 20 eval '[[ $(ls "$folder/run/checkpoints") != "$saved" ]]'
done
kill -TERM "$(pid_of_rank 0)"
collect
expect "a run is trained and stopped: $code" test "$code" = 75
expect "its claim is free" test -z "$(ls "$folder/run" | grep lock)"

# --- the other programs, while the clock moves ------------------------------------------------------------------------------
moves &
mover=$!
train 2 --dataset hdf5 --data "$folder/data/small" --steps 2 --run "$folder/run2"
export LD_PRELOAD=$folder/clock.so
for words in 'train_mnist --dataset mnist --data data/mnist' 'train_reuters --data data/reuters --batch 4' \
  'train_images --dataset hdf5 --data data/photos --model resnet_small --batch 4' 'train_cifar --data data/small --dataset hdf5'; do
  read -ra words <<<"$words"
  (cd "$folder" && exec timeout 60 "$build/${words[0]}" --threads 1 --steps 2 --no-run --quiet "${words[@]:1}") >"$folder/out" 2>"$folder/raw"
  expect "${words[*]}" test $? = 0
done
ranks 1 export_model "$folder/run2" "$folder/a.onnx"
expect "export_model: $code" test "$code" = 0
ranks 1 compare_runs "$folder/run" "$folder/run2" --output "$folder/page.html"
expect "compare_runs: $code" test "$code" = 0
ranks 1 report_runs "$folder/run2"
expect "report_runs: $code" test "$code" = 0
ranks 1 evaluate "$folder/run2"
expect "evaluate: $code" test "$code" = 0
ranks 1 verify_run "$folder/run2" --all
expect "verify_run: $code" test "$code" = 0
run "$build/lockstep_run" -np 2 "$build/train_cifar" "${small[@]}" --steps 50
expect "lockstep_run: $code" test "$code" = 0
kill "$mover"
wait "$mover" 2>/dev/null

# --- progress of a build, by a monotonic clock ------------------------------------------------------------------------------
move 0 0
progress=$(preloaded bash -c '. "$1/../../scripts/common.sh"
  { echo "[1/9] a"; sleep 1; printf "%12d %12d\n" -3600 0 1<>"$MOVED_CLOCK"; sleep 1; echo "[2/9] b"; } |
    LOCKSTEP_PROGRESS_SECONDS=1 keep_log "$2"' - "$here" "$folder/log" 2>&1)
expect "keep_log: $progress" test "${progress##*: }" = 'building, 2 of 9 files'  # a busy machine has the first line, too
finish
