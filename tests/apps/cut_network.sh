#!/usr/bin/env bash
# Hosts that cannot reach each other are named within twice --timeout, mpirun ends within 10 s more, and no process stays
# on either side. Hosts whose ranks are stopped for longer than that are not blamed. Skipped if lib_hosts.sh cannot run.
# processors: 3
# usage: cut_network.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=SCRIPTDIR/lib_hosts.sh
. "$(dirname "$0")/lib_hosts.sh"
timeout=6
limit=90

hosts=3
trap 'remove_hosts $hosts; tidy' EXIT
start_on() {  # HOSTS RANKS_OF_EACH PROGRAM OPTIONS...: in the background, as launch() does
  across "$1" "$2"
  began=$SECONDS
  : >"$folder/out"
  set -m
  timeout --kill-after=5 $limit "${across[@]}" "${@:3}" >"$folder/out" 2>"$folder/raw" </dev/null &
  launcher=$!
  set +m
}
train_on() { start_on "$1" "$2" "$build/train_cifar" "${small[@]}" --global-batch 12 --model resnet_small --timeout $timeout "${@:3}"; }
ranks_on() {  # HOST: the processes of its ranks
  local pid
  for pid in $(processes_on "$1"); do
    [[ $(<"/proc/$pid/comm") != train_cifar ]] || echo "$pid"
  done
} 2>/dev/null

{ make_hosts 3 && start_on 3 1 hostname && collect && grep -qx test-host-3 "$folder/out"; } 2>/dev/null ||
  skip "no hosts can be made here (root, ip of iproute2, Open MPI 4)"
remove_hosts 3

named() { grep -qE '^train_cifar: host test-host-[123] .*test-host-' "$folder/raw"; }
# Packets of host $1 to host $2 go to a card that is not there, those of host $2 arrive.
misdirect() { ip -n "$own-$1" neigh replace "192.0.2.$2" lladdr 02:00:00:00:00:99 dev eth0 nud permanent; }
unplug() { ip -n "$own-$1" link set eth0 down; }
restore() {
  for ((i = 1; i <= hosts; i++)); do
    ip -n "$own-$i" link set eth0 up
    ip -n "$own-$i" neigh flush all nud permanent
  done
}
expect_cut() {  # WHAT NAMES (of the line) COMMAND...: a run that COMMAND disturbs ends in time, with the cause
  local what=$1 names=$2 cut end
  shift 2
  await 60 has_done 9
  await 30 bash -c "ip netns exec '$own-1' ss -Htn state established | grep -q ." # MPI's and the heartbeat's
  sleep 1
  cut=$SECONDS
  "$@"
  await $((2 * timeout + 1)) named
  end=$SECONDS
  await 10 ended
  expect "$what: mpirun ends" test $((SECONDS - end)) -le 10
  kill -KILL -- "-$launcher" 2>/dev/null
  collect
  expect "$what: a failure" test "$code" -ne 0
  expect "$what: not a request to be requeued" test "$code" -ne 75
  expect "$what: the hosts are named" lines_with "$folder/err" "^train_cifar: $names step.[0-9]+"
  expect "$what: one line" test "$(wc -l <"$folder/err")" = 1
  expect "$what: no process stays" await 40 all_gone
  echo "$what: named after $((end - cut)) s, exit code $code"
  restore
}
all_gone() { [[ -z $(for ((i = 1; i <= hosts; i++)); do processes_on "$i"; done) ]]; }

# All ranks of a host are stopped for longer than it takes to name a host: its kernel answers.
stop_host() {  # WHAT: 2, and the run then goes on
  local before
  # shellcheck disable=SC2046
  kill -STOP $(ranks_on 2)
  sleep $((2 * timeout + 1))
  # shellcheck disable=SC2046
  kill -CONT $(ranks_on 2)
  before=$(grep -c . "$folder/out")
  await 60 bash -c "(( \$(grep -c . '$folder/out') > $before + 20 ))"
  expect "$1 is not blamed" kill -0 "$launcher"
  expect "$1 is not named" bash -c "! grep -q 'host test-host' '$folder/raw'"
}
# TCP repeats a packet of the old connection only after up to the duration of the outage. Without probes that is too late.
short_outage() {
  local before
  unplug 2
  sleep $timeout
  restore
  before=$(grep -c . "$folder/out")
  await 60 bash -c "(( \$(grep -c . '$folder/out') > $before + 20 ))"
  expect "a short outage ends no run" kill -0 "$launcher"
  expect "a short outage names no host" bash -c "! grep -q 'host test-host' '$folder/raw'"
}
# Two hosts. An administrator closes the heartbeat; ports near 1024 are those of MPI.
without_heartbeat() {
  local port
  train_on 2 2
  await 60 has_done 9
  sleep 1
  # shellcheck disable=SC2046
  kill -STOP $(ranks_on 2)
  for port in $(ip netns exec "$own-1" ss -Htnp state established dst 192.0.2.2 |
    awk '/train_cifar/ && $3 !~ /:10..$/ && $4 !~ /:10..$/ { sub(/.*:/, "", $4); print $4 }'); do
    ip netns exec "$own-1" ss -K dst 192.0.2.2 dport = "$port" >/dev/null 2>&1
  done
  stop_host "a host whose heartbeat was closed"
  kill -KILL -- "-$launcher" 2>/dev/null
  collect 2>/dev/null
  await 40 all_gone
}
on_two() {
  train_on 2 2
  await 60 has_done 9
  stop_host "a stopped host"
  short_outage
  expect_cut "an unplugged host" 'host.test-host-1 test-host-2' unplug 2
}
on_three() {
  train_on 3 1
  expect_cut "two hosts that mpirun reaches" 'host.test-host-[23] test-host-2 test-host-3' misdirect 2 3
  train_on 3 1
  expect_cut "a host of three" 'host.test-host-[13] test-host-2' unplug 2
  train_on 3 1
  expect_cut "the host of mpirun" 'host.test-host-1 test-host-2 test-host-3' unplug 1
}
of_one_direction() {
  train_on 2 1
  expect_cut "packets of one direction are lost" 'host.test-host-1 test-host-2' misdirect 2 1
}
# That host first finds a dead rank. Its daemon reports that, and waits for an order that cannot arrive.
unplug_and_kill() {
  local ranks
  mapfile -t ranks < <(ranks_on 2)
  unplug 2
  kill -KILL "${ranks[0]}"
}
with_a_death() {
  train_on 2 2
  expect_cut "a rank that dies on an unplugged host" 'host.test-host-1 test-host-2' unplug_and_kill
}
with_hosts() {  # COUNT COMMAND...: on hosts of its own
  hosts=$1 own=lockstep$BASHPID
  trap 'remove_hosts $hosts' EXIT
  expect "$1 hosts" make_hosts "$1" && "${@:2}"
  remove_hosts "$1"
}
# In parallel, because they wait most of the time.
aside with_hosts 2 without_heartbeat
aside with_hosts 2 on_two
aside with_hosts 3 on_three
aside with_hosts 2 of_one_direction
aside with_hosts 2 with_a_death
join_asides
finish
