#!/usr/bin/env bash
# bench_allreduce: every reducer and MPI's own at every size, right sums, files that other programs read;
# refused options.
# usage: bench_allreduce.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
[[ -x $build/bench_allreduce ]] || skip "no bench_allreduce (built with LOCKSTEP_BENCH)"
sizes=(--min 4 --max 64K --factor 128 --iters 5)

ranks 3 bench_allreduce -b 4 -e 64K -f 128 -n 5 -w 0 --check
expect "it measures" test "$code" = 0
for name in auto shared direct mpi tree recursive_doubling halving_doubling ring to_one MPI_Allreduce; do
  for bytes in 4 512 65536; do
    expect "$name at $bytes bytes is right" grep -qE "^$name +$bytes +.* 0\$" "$folder/out"
  done
done
expect "names, units and values have the same columns" \
  awk '/^reducer +size/ { n = NF } /^\(name\)/ || /^ring +4 / { ++rows; bad += NF != n } END { exit bad || rows != 2 }' "$folder/out"
expect "the fastest reducer by size" grep -qE '^4 +[A-Za-z_]+ +[0-9.]+$' "$folder/out"
expect "the average bus bandwidth is the mean of the column" \
  awk '/^ring +[0-9]+ / { sum += $8; ++n } /^ring +[0-9.]+$/ { mean = $2 } END { d = sum / n - mean; exit !(n == 3 && d < 0.002 && d > -0.002) }' "$folder/out"
ranks 3 bench_allreduce "${sizes[@]}" --check --json
cp "$folder/out" "$folder/rows.jsonl"
cat >"$folder/read.py" <<'PYTHON'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert len(rows) >= 27, len(rows)
for row in rows:
    assert row["median_us"] > 0 and row["median_us"] <= row["p95_us"] <= row["max_us"], row
    bus = row["bytes"] / row["median_us"] * 1e-3 * 4 / 3
    assert abs(row["busbw_gb_s"] - bus) <= 0.01 * bus + 1e-4, row
    assert row["wrong"] == 0 and row["percent_of_bound"] is not None and row["ranks"] == 3, row
PYTHON
expect "its file is read" python3 "$folder/read.py" "$folder/rows.jsonl"
for python in python3 /usr/bin/python3; do
  "$python" -c 'import matplotlib' 2>/dev/null || continue
  "$python" "$(dirname "$0")/../../bench/plot_allreduce.py" "$folder/rows.jsonl" "$folder/plot.png"
  expect "its rows are drawn" test -s "$folder/plot.png"
  break
done

ranks 3 bench_allreduce "${sizes[@]}" --type bf16 --check --json
expect "it measures 16 bits" test "$code" = 0
expect "64 KiB in bf16 are right" grep -q '"direct", "type": "bf16", .*"bytes": 65536,.*"wrong": 0}' "$folder/out"
expect "a reducer that rounds nothing is left out" lines_with "$folder/err" 'note hierarchical nothing'
expect "or refuses the type" lines_with "$folder/err" 'note ring bf16'

ranks 1 bench_allreduce --max 4
expect "one rank is not ranked" test "$code-$(grep -c 'fastest\|bus bandwidth' "$folder/out")" = 0-0

ranks 2 bench_allreduce --reducers rnig
expect "an unknown reducer is refused" test "$code" = 2
expect "with the names, by one rank" test "$(grep -c '"rnig".*"ring"' "$folder/err")" = 1
ranks 1 bench_allreduce --min 1M --max 1K
expect "sizes that are none are refused" lines_with "$folder/err" '--?max 1K --min 1M'
ranks 1 bench_allreduce --max 99999G
expect "sizes that overflow are refused" test "$code" = 2
ranks 2 bench_allreduce --reducers ring --type bf16
expect_error "a reducer that does not round is refused" 2 '^bench_allreduce: --reducers ring bf16 direct'
expect "before the heading" test ! -s "$folder/out"
ranks 2 bench_allreduce --reducers auto --type bf16
expect_error "and one that sends nothing here" 2 '^bench_allreduce: --reducers auto --type'

launch 2 bench_allreduce --reducers MPI_Allreduce,tree --min 4M --max 4M --iters 2000
await 120 grep -q '^MPI_Allreduce ' "$folder/out"  # so the next is under way
sleep 0.2
kill -KILL "$(pid_of_rank 1)"
collect
expect "a death ends it" test "$code" -ne 0
expect "what a rank died in is named" lines_with "$folder/err" '^bench_allreduce: rank.1 died tree 4194304'
finish
