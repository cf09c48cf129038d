#!/usr/bin/env bash
# bench_allreduce: each reducer and MPI's own at each size, correct sums, readable files, an algorithm as text and picture,
# and errors.
# usage: bench_allreduce.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
[[ -x $build/bench_allreduce ]] || skip "no bench_allreduce (built with LOCKSTEP_BENCH)"
sizes=(--min 4 --max 64K --factor 128 --iters 5)

ranks 3 bench_allreduce "${sizes[@]}" --check --json "$folder/rows.jsonl" --plot "$folder/plot.svg"
expect "it measures" test "$code" = 0
for name in shared direct mpi tree recursive_doubling halving_doubling ring to_one MPI_Allreduce; do
  for bytes in 4 512 65536; do
    expect "$name at $bytes bytes is right" grep -qE "^$name +$bytes +.* 0\$" "$folder/out"
  done
done
expect "the fastest for each size" grep -qE '^4 B .*[0-9]' "$folder/out"
cat >"$folder/read.py" <<'PYTHON'
import json, sys, xml.dom.minidom
rows = [json.loads(line) for line in open(sys.argv[1])]
assert len(rows) >= 24, len(rows)
for row in rows:
    assert row["median_us"] > 0 and row["median_us"] <= row["p95_us"] <= row["max_us"], row
    bus = row["bytes"] / row["median_us"] * 1e-3 * 4 / 3
    assert abs(row["busbw_gb_s"] - bus) <= 0.01 * bus + 1e-4, row
    assert row["wrong"] == 0 and row["percent_of_bound"] is not None and row["ranks"] == 3, row
reducers = {row["reducer"] for row in rows}
for file in sys.argv[2:]:
    xml.dom.minidom.parse(file)
lines = xml.dom.minidom.parse(sys.argv[2]).getElementsByTagName("polyline")
assert len(lines) == 2 * (len(reducers) + 1), (len(lines), reducers)
PYTHON
for name in ring halving_doubling to_one; do
  "$build/bench_allreduce" --draw $name --ranks 4 >"$folder/$name.svg" 2>/dev/null </dev/null
done
expect "its files are read" python3 "$folder/read.py" "$folder/rows.jsonl" "$folder/plot.svg" "$folder/ring.svg" \
  "$folder/halving_doubling.svg" "$folder/to_one.svg"
# 2 (P - 1) rounds in which each of the P ranks gets one message.
expect "the ring has 24 arrows" test "$(grep -c marker-end "$folder/ring.svg")" = 24

ranks 3 bench_allreduce "${sizes[@]}" --type bf16 --check --json "$folder/bf16.jsonl"
expect "it measures 16 bits" test "$code" = 0
for name in direct MPI_Allreduce; do
  expect "$name of 32768 numbers in bf16 is right" grep -qE "^$name +65536 +32768 .* 0\$" "$folder/out"
done
expect "the file names the type" test "$(grep -c '"type": "bf16"' "$folder/bf16.jsonl")" = 6
expect_line "a reducer that rounds nothing is left out" 'hierarchical nothing'
expect_line "or refused" '--wire bf16 reducer ring'
ranks 3 bench_allreduce "${sizes[@]}" --type f64 --check
expect "only MPI sums doubles" grep -qE '^MPI_Allreduce +65536 +8192 .* 0$' "$folder/out"
expect_line "a line says why" 'reducers fp32'
ranks 2 bench_allreduce --type f64 --reducers ring
expect_error "a reducer of floats is refused" 2 '^bench_allreduce: --reducers ring fp32 --type'

ranks 1 bench_allreduce --explain tree --ranks 2 --elements 8
expect "tree in words" grep -q '^  rank 0 adds 0..7 from 1$' "$folder/out"
expect "and back" grep -q '^  rank 1 copies 0..7 from 0$' "$folder/out"

ranks 2 bench_allreduce --reducers rnig
expect "an unknown reducer is refused" test "$code" = 2
expect "with the names, by one rank" test "$(grep -c '"rnig".*"ring"' "$folder/err")" = 1
ranks 1 bench_allreduce --min 1M --max 1K
expect "sizes that are none are refused" lines_with "$folder/err" '--?max 1024 --min 1048576'
ranks 1 bench_allreduce --max 99999G
expect "sizes that overflow are refused" test "$code" = 2
ranks 1 bench_allreduce --draw circle
expect "an unknown algorithm is refused" grep -q '"circle"' "$folder/err"
ranks 2 bench_allreduce "${sizes[@]}" --json /nowhere/rows
expect "a file that cannot be written is named" grep -q /nowhere/rows "$folder/err"
expect "and ends it" test "$code" = 1
expect "before anything is measured" test ! -s "$folder/out"
mkfifo "$folder/pipe"
ranks 2 bench_allreduce "${sizes[@]}" --plot "$folder/pipe"
expect "a pipe without a reader is refused at once" grep -q "$folder/pipe" "$folder/err"
ranks 2 bench_allreduce "${sizes[@]}" --plot "$folder/one" --json "$folder/one"
expect "two reports are two files" lines_with "$folder/err" '--json --plot'
ranks 2 bench_allreduce --reducers ring --type bf16
expect_error "a reducer that does not round is refused" 2 '^bench_allreduce: --reducers ring fp32 bf16 direct'
expect "before the heading" test ! -s "$folder/out"
ranks 2 bench_allreduce --reducers auto --type bf16
expect_error "and one that sends nothing here" 2 '^bench_allreduce: --reducers auto --type'
ranks 1 bench_allreduce --draw ring --explain ring
expect_error "one text at a time" 2 '^bench_allreduce: --explain --draw'
ranks 1 bench_allreduce --ranks 8
expect_error "ranks are those of mpirun" 2 '^bench_allreduce: --ranks --draw --explain'

launch 2 bench_allreduce --reducers MPI_Allreduce,tree --min 4M --max 4M --iters 2000
await 120 grep -q '^MPI_Allreduce ' "$folder/out"  # so the next is under way
sleep 0.2
kill -KILL "$(pid_of_rank 1)"
collect
expect "a death ends it" test "$code" -ne 0
expect "the error names the phase in which a rank died" lines_with "$folder/err" '^bench_allreduce: rank.1 died tree 4194304'

ranks 2 bench_joints --joints counter,message,bucket --iters 20
expect "the joints are timed" test "$code" = 0
for name in counter message/65536 bucket/poll/1 bucket/thread/64; do
  expect "$name, once" test "$(grep -cE "^$name +[0-9.]+ +[-0-9.]+$" "$folder/out")" = 1
done
expect "and no other" test "$(grep -c '^sum' "$folder/out")" = 0
ranks 2 bench_joints --joints sums
expect_error "an unknown joint is refused" 2 'bench_joints: .*sums'
two_commands "$build/bench_joints" --joints sum // "$build/bench_joints" --joints counter
expect "ranks with other options are refused" grep -q -- '--joints = counter' "$folder/err"
finish
