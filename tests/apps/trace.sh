#!/usr/bin/env bash
# --trace: one timeline of all ranks by one clock, whole however the run ends. The straggler is named.
# usage: trace.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"

cat >"$folder/read.py" <<'PYTHON'
"""usage: read.py FILE RANKS STEPS: the file holds at least so many steps of so many ranks, in lanes that can be drawn."""
import collections
import json
import sys

events = json.load(open(sys.argv[1]))["traceEvents"]
ranks, least = int(sys.argv[2]), int(sys.argv[3])
processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
assert sorted(processes) == list(range(ranks)), processes
assert all(name.startswith("rank %d (" % rank) for rank, name in processes.items()), processes
lanes = collections.defaultdict(list)
for e in events:
    if e["ph"] == "X":
        assert e["ts"] >= 0 and e["dur"] >= 0, e
        lanes[e["pid"], e["tid"]].append((e["ts"], e["ts"] + e["dur"], e["name"]))
assert sorted(lanes) == [(rank, lane) for rank in range(ranks) for lane in (0, 1)], sorted(lanes)
steps = {}
for (rank, lane), spans in lanes.items():
    spans.sort(key=lambda s: (s[0], -s[1]))
    open_until = []
    for begin, end, name in spans:  # within each other or apart (times have three digits)
        while open_until and open_until[-1] <= begin + 0.002:
            open_until.pop()
        assert not open_until or end <= open_until[-1] + 0.002, (rank, lane, name, begin, end, open_until)
        open_until.append(end)
    names = collections.Counter(name.split(" ")[0] for _, _, name in spans)
    if lane == 0:
        steps[rank] = {name: (begin, end) for begin, end, name in spans if name.startswith("step ")}
        assert len(steps[rank]) >= least, names
        for name in ("loading", "forward", "backward", "waiting"):
            assert names[name] == len(steps[rank]), names
    else:
        buckets = {name for _, _, name in spans if name.startswith("bucket ")}
        assert len(buckets) > 1 and names["bucket"] == names["update"] == len(buckets) * len(steps[rank]), names
# By one clock the ranks' steps overlap: none ends before all have begun.
for name in steps[0]:
    begins, ends = zip(*(steps[rank][name] for rank in range(ranks)))
    assert max(begins) <= min(ends) + 5, (name, begins, ends)
PYTHON

train 2 --steps 12 --trace "$folder/polled.json"
expect "a timeline of both ranks" python3 "$folder/read.py" "$folder/polled.json" 2 12
expect_line "says where it is" "^trace $folder/polled.json"
train 3 --global-batch 12 --steps 5 --reducer tree --progress thread --bucket-mb 0.5 --trace "$folder/threads.json"
expect "with a thread of its own" python3 "$folder/read.py" "$folder/threads.json" 3 5

start 2 --trace "$folder/stopped.json"
await 60 has_done 20
kill -TERM "$(pid_of_rank 1)"
collect
expect_error "a run that is stopped" 1 'stopped step'
expect "has a whole timeline" python3 "$folder/read.py" "$folder/stopped.json" 2 20
ranks 2 train_cifar "${small[@]}" --steps 30 --lr 1e8 --trace "$folder/diverged.json"
expect_error "a run that diverges" 66 'diverged'
expect "has one, too" python3 "$folder/read.py" "$folder/diverged.json" 2 1
train 1 --steps 2 --check --trace "$folder/checked.json"
expect "--check writes none" test ! -e "$folder/checked.json"

mkdir "$folder/there"
for bad in /nowhere/trace.json "$folder/there" /dev/null; do
  ranks 2 train_cifar "${small[@]}" --steps 2 --trace "$bad"
  expect_error "a place for no file: $bad" 2 "^train_cifar: --trace $bad"
  expect "before anything is trained" test ! -s "$folder/out"
done
cp "$folder/small.toml" "$folder/kept.toml"
ranks 2 train_cifar --config "$folder/kept.toml" --steps 2 --trace "$folder/kept.toml"
expect_error "a file that is no trace" 2 "^train_cifar: --trace $folder/kept.toml"
expect "it is still there" cmp "$folder/small.toml" "$folder/kept.toml"
train 2 --steps 2 --run "$folder/own" --trace "$(step_file "$folder/own" 2)"
expect_line "a file of the run itself is kept too" '^warning --trace'
train 2 --steps 3 --run "$folder/own"
train 2 --steps 2 --run "$folder/new" --trace "$folder/new/trace.json"
expect "in a folder that the run makes" python3 "$folder/read.py" "$folder/new/trace.json" 2 2
train 2 --steps 3 --trace "$folder/new/trace.json"
expect "and in the place of an older one" python3 "$folder/read.py" "$folder/new/trace.json" 2 3
ranks 2 train_cifar "${small[@]}" --steps 2 --trace "$folder/$(printf 'n%.0s' $(seq 250))"
expect_error "a name that leaves no room" 2 "^train_cifar: --trace File.name.too.long"
expect "the other places are unchanged" test -d "$folder/there" -a -c /dev/null

# --- a rank that is stopped for half of the time ---------------------------------------------------------------------------
start 2 --steps 100000
await 60 has_done 3
late=$(pid_of_rank 1)
named() { lines_with "$folder/out" 'rank.1 [0-9]+\.[0-9].ms [0-9]+.steps' >/dev/null; }
for _ in $(seq 300); do
  kill -STOP "$late"
  sleep 0.03
  kill -CONT "$late"
  sleep 0.03
  ! named || break
done
expect "the rank that makes the other wait is named" named
kill -TERM "$late"
collect
finish
