#!/usr/bin/env bash
# A rank's memory stays within the memory plan that it printed, plus 10 % and 20 MiB for libraries, for each network.
# usage: memory.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"

# MiB that a process holds itself: anonymous and shared memory, not mapped files.
held() { awk '/^Rss(Anon|Shmem):/ { kib += $2 } END { printf "%d", kib / 1024 }' "/proc/$1/status"; }

check_plan() {  # WHAT RANKS OPTIONS...
  local what=$1 count=$2 plan pid rank most
  shift 2
  start "$count" --summary-every 2 --checkpoint-every 2 --run "$folder/$what" "$@"
  await 40 has_done 5  # everything has been used once
  plan=$(sed -n 's/^memory *\([0-9]*\)\.[0-9] MiB per rank = .*/\1/p' "$folder/out")
  expect "$what: a plan is printed" test "${plan:-0}" -gt 0
  for ((rank = 0; rank < count; rank++)); do
    pid=$(pid_of_rank $rank)
    most=$(held "$pid")
    echo "$what, rank $rank: $most MiB held, $plan MiB planned"
    expect "$what, rank $rank: no more than planned" test $((10 * most)) -le $((11 * plan + 200))
    expect "$what, rank $rank: the plan is no exaggeration" test $((2 * most)) -ge "$plan"
  done
  kill -USR1 "$pid"
  collect
}
check_plan shared 2 --global-batch 128
check_plan tree 2 --global-batch 128 --reducer tree --momentum 0.9
check_plan shards 1 --global-batch 128 --shards 4 --precision "$(has_bf16 && echo bf16 || echo fp32)"
check_plan small 3 --global-batch 6
finish
