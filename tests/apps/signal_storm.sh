#!/usr/bin/env bash
# Ranks under a storm of signals compute the same bits as undisturbed ranks: no handler runs on a stack that kernels use
# (src/base/signals.h). tests/support/signal_storm.cc only counts the signals.
# usage: signal_storm.sh BUILD_FOLDER [STEPS]
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
steps=${2:-150}
limit=$((60 + steps))
state=(--shards 4 --momentum 0.9 --ema 0.99)
mkfifo "$folder/silent"

# RANKS STEPS: about a thousand signals a second to each rank, from the first step to the last.
storm() {
  local count=$1 sent=0 kinds=(USR1 TERM HUP) pids rank
  launch "$count" tests/signal_storm "${small[@]}" "${state[@]}" --steps "$2" --run "$folder/storm$count"
  await 60 has_done 1
  pids=$(for ((rank = 0; rank < count; ++rank)); do pid_of_rank $rank; done)
  expect "$count ranks run" test "$(wc -w <<<"$pids")" = "$count"
  # shellcheck disable=SC2086  # a list of processes
  while kill -"${kinds[sent++ % 3]}" $pids 2>/dev/null; do
    ((sent % 50)) || ! has_done "$2" || break
    read -rt 0.0005 <>"$folder/silent"  # sleeps
  done
  collect
  echo "$count ranks, $2 steps, $sent signals sent to each: $(grep ' signals$' "$folder/out" | paste -sd ,)"
  expect "$count ranks survive" test "$code" = 0
  expect "each of $count took a hundred or more" test "$(grep -cE '^rank [0-9]+ received [0-9]{3,} signals$' "$folder/out")" = "$count"
  expect_same_state "$count ranks in the storm" "$(step_file "$folder/undisturbed" "$2")" "$(step_file "$folder/storm$count" "$2")"
}
train 1 "${state[@]}" --steps "$steps" --checkpoint-every $((steps / 3)) --run "$folder/undisturbed"
storm 2 "$steps"
storm 4 $((steps / 3))
finish
