#!/usr/bin/env bash
# Algorithms in SimGrid's time, if it is installed: simulated times are the schedules' costs.
. "$(dirname "$0")/lib.sh"

simulate=$here/../../bench/simulate.sh
expect "it has help" bash -c "'$simulate' --help | grep -q -- --topology"
"$simulate" --topology ring >"$folder/out" 2>"$folder/raw"
expect "an unknown topology is a usage error" test $? = 2
expect "which is named" lines_with "$folder/raw" 'topology ring'
"$simulate" --ranks 20 --bytes 4096 --topology fat_tree >"$folder/out" 2>"$folder/raw"
expect "a fat tree that is no square is a usage error" test $? = 2
command -v smpirun >/dev/null || skip "SimGrid is not installed (apt install libsimgrid-dev)"

export LOCKSTEP_BUILD=$folder/build
"$simulate" --ranks 16 --bytes '4096 1048576' --algorithms 'ring recursive_doubling halving_doubling to_one' --plot "$folder/plot.png" >"$folder/out" 2>"$folder/raw"
expect "it runs" test $? = 0
for algorithm in ring recursive_doubling halving_doubling to_one; do
  expect "$algorithm takes the cost of its schedule, within 2 %" \
    awk -v name="$algorithm" '$1 == name { ++n; if ($6 < 0.98 || $6 > 1.02) bad = 1 } END { exit bad || n != 2 }' "$folder/out"
done
expect "short buckets go by recursive doubling" grep -q '16 ranks, 4096 bytes *recursive_doubling' "$folder/out"
expect "long ones by halving and doubling" grep -q '16 ranks, 1048576 bytes *halving_doubling' "$folder/out"
finish
