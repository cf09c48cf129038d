#!/usr/bin/env bash
# Two hosts (lib_hosts.sh): the reducer that auto chooses, also on a slow link. Neither the number of hosts nor the link
# changes a bit of the result.
# processors: 2
# usage: hosts.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=SCRIPTDIR/lib_hosts.sh
. "$(dirname "$0")/lib_hosts.sh"
need_h5py
small_checkpoints  # little to send over a slow link
trap 'tidy; remove_hosts 2' EXIT
on_hosts() {  # RANKS_OF_EACH PROGRAM OPTIONS...: as ranks() does
  across 2 "$1"
  run "${across[@]}" "${@:2}"
}

{ make_hosts 2 && on_hosts 1 hostname && grep -qx test-host-2 "$folder/out"; } 2>/dev/null ||
  skip "no two hosts can be made here (root, ip of iproute2, Open MPI 4)"

four=(--shards 4 --momentum 0.9 --steps 3 --run)
train_on_hosts() {  # RANKS_OF_EACH OPTIONS...
  on_hosts "$1" "$build/train_cifar" "${small[@]}" "${@:2}"
  expect "it trains on two hosts" test "$code" = 0
}
train 2 "${four[@]}" "$folder/one"

train_on_hosts 1 "${four[@]}" "$folder/two"
expect_line "auto prints its measurement" '^reducer [0-9]+.us [0-9.e+]+.GB/s'
expect_same_state "two hosts" "$(step_file "$folder/one" 3)" "$(step_file "$folder/two" 3)"

# With a thousandth of the bandwidth, the next run measures so.
if ip netns exec "$own-1" tc qdisc add dev eth0 root tbf rate 10mbit burst 32kb latency 100ms 2>/dev/null; then
  train_on_hosts 1 "${four[@]}" "$folder/slow"
  expect_line "a slower link is measured" '^reducer [0-9]+.us 0\.0[0-9.]+.GB/s'
  expect_same_state "two hosts with a slow link" "$(step_file "$folder/one" 3)" "$(step_file "$folder/slow" 3)"
  train_on_hosts 1 --shards 4 --momentum 0.9 --steps 2 --run "$folder/resumed"
  train 4 "${four[@]}" "$folder/resumed"
  expect_same_state "resumed on one host" "$(step_file "$folder/one" 3)" "$(step_file "$folder/resumed" 3)"
  ip netns exec "$own-1" tc qdisc del dev eth0 root
fi

train_on_hosts 2 "${four[@]}" "$folder/pairs"
expect_line "with several ranks on each it is hierarchical" '^reducer hierarchical 4.ranks 2.hosts'
expect_same_state "two hosts of two ranks" "$(step_file "$folder/one" 3)" "$(step_file "$folder/pairs" 3)"

for run in first second; do
  train_on_hosts 1 --shards 2 --steps 4 --wire bf16 --run "$folder/$run"
done
expect_line "16 bits between hosts" '^reducer direct 2.ranks 16.bits bf16'
expect_same_state "the same in every run" "$(step_file "$folder/first" 4)" "$(step_file "$folder/second" 4)"

# The log has what each host uses. What a host sends, the other receives.
across 2 1
began=$SECONDS
set -m
"${across[@]}" "$build/train_cifar" "${small[@]}" --shards 2 --steps 1000000 --log-every 10 --run "$folder/use" \
  >"$folder/out" 2>"$folder/raw" </dev/null &
launcher=$!
set +m
await 60 grep -q '"kind":"host"' "$folder/use/metrics.jsonl"
kill -TERM -- "-$launcher"
collect
expect "the use of two hosts" python3 - "$folder/use/metrics.jsonl" <<'END'
import json
import sys

row = next(row for row in map(json.loads, open(sys.argv[1])) if row["kind"] == "host")
for host in 0, 1:
    assert row[f"cores_{host}"] > 0 and row[f"bytes_{host}"] > 1e6, row
    assert 0.5 < row[f"sent_per_s_{host}"] / row[f"received_per_s_{1 - host}"] < 2, row
assert "cores_2" not in row, row
END

# Each host keeps a state in memory. A host that has lost it gets that of the other.
memory_on() {  # HOST: its folder of the run `memory`
  local file
  for file in /dev/shm/lockstep-run-"$(id -u)"-*-test-host-"$1"/run; do
    [[ ! -e $file || $(cat "$file") != "$folder/memory" ]] || dirname "$file"
  done
}
trap 'rm -rf "$(memory_on 1)" "$(memory_on 2)"; tidy; remove_hosts 2' EXIT
lasting=(--shards 2 --steps 200 --checkpoint-every 1000 --run "$folder/memory")
began=$SECONDS
set -m
"${across[@]}" "$build/train_cifar" "${small[@]}" "${lasting[@]}" >"$folder/out" 2>"$folder/raw" </dev/null &
launcher=$!
set +m
await 60 has_done 20
for host in 1 2; do await 60 eval 'has_state "$(memory_on $host)"'; done
pkill -KILL -f -- "--run $folder/memory"
collect
expect_files "before the first checkpoint" "$folder/memory/checkpoints"
for host in 1 2; do expect "host $host keeps a state" test -e "$(memory_on $host)/states"; done
first=$(memory_on 1)
rm -r "$first"
on_hosts 1 "$build/train_cifar" "${small[@]}" "${lasting[@]}"
expect "it goes on: $code" test "$code" = 0
expect_line "the state of the other host" "^resumed from.$first/step-[0-9]*.h5"
expect "no host keeps a state" test -z "$(memory_on 1)$(memory_on 2)"

on_hosts 1 "$build/train_cifar" "${small[@]}" --steps 1 --reducer shared
expect_error "memory of one host" 1 'reducer shared 1 2 test-host-1 --reducer tree'

# One host has no room for the window. All hosts end with its reason, long before --timeout.
limit=30
agreed=('' '' 'rank.2')  # by host: as one error of all ranks
for host in 1 2; do
  echo 2m 0 >"$folder/shm-$host"
  on_hosts 2 "$build/train_cifar" "${small[@]}" --model tutorial --steps 1 --reducer hierarchical
  expect_error "host $host has a small /dev/shm" 1 "^train_cifar: ${agreed[host]} shared test-host-$host /dev/shm [12]\.[0-9].MiB"
  rm "$folder/shm-$host"
done
echo 4k 4k >"$folder/shm-2"
on_hosts 2 "$build/train_cifar" "${small[@]}" --steps 1
expect_error "a host has none at the start" 1 '^train_cifar: start test-host-2 /dev/shm 0\.0.MiB'
finish
