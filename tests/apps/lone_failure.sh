#!/usr/bin/env bash
# A rank that fails alone, at any place, prints one line before anything is torn down, and all ranks end.
# usage: lone_failure.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
limit=50  # seconds: an idle machine needs 2, and --timeout is 60

# RANKS RANK PLACE CODE WORDS OPTIONS...
expect_one_line() {
  local count=$1 rank=$2 place=$3 expected=$4 words=$5
  shift 5
  ranks "$count" tests/lone_failure "$rank" "$place" "$@"
  [[ $rank != -1 ]] || rank='[0-9]'
  expect_error "rank $rank of $count fails at $place ($*)" "$expected" "^lone_failure: rank.$rank $words"
}
for policy in poll thread; do
  expect_one_line 2 0 $policy 3 "broken at $policy"
  expect_one_line 4 3 $policy 3 "broken at $policy"
done
expect_one_line 3 1 start-up 3 'broken at start-up' "${small[@]}"
expect_one_line 3 2 step 3 'broken at step' "${small[@]}" --global-batch 12
expect_one_line 2 0 step 3 'broken at step' "${small[@]}" --reducer tree --progress thread
expect_one_line 2 1 memory 1 'memory' "${small[@]}" --reducer mpi
expect_one_line 4 2 foreign 1 'far out' "${small[@]}" --reducer halving_doubling

# The rank that fails says why in the run's folder, also if it is the only one.
expect_one_line 2 1 step 3 'broken at step' "${small[@]}" --run "$folder/two"
ranks 1 tests/lone_failure 0 step "${small[@]}" --run "$folder/one"
for run in one two; do
  expect "$run: status and reason" \
    python3 -c 'import json, sys; s = json.load(open(sys.argv[1])); assert s["status"] == "failed" and s["reason"].endswith("broken at step"), s' "$folder/$run/summary.json"
done

expect_one_line 4 -1 poll 3 'broken at poll'
expect_one_line 2 -1 step 3 'broken at step' "${small[@]}"

# Others wait in MPI_Finalize for a rank that is stopped: the watchdog is still there.
ranks 3 tests/lone_failure 1 exit
# When all ranks are gone, mpirun itself may crash in its own end (Open MPI 4.1.4, PMIx_server_finalize, 1 run of 50 on a busy
# machine).
[[ $code != 139 ]] || ranks 3 tests/lone_failure 1 exit
expect "a rank that stops on the way out ends the run" test "$code" = 68
expect "a rank that stops on the way out is named" \
  lines_with "$folder/err" '^lone_failure: rank.1 stopped'
finish
