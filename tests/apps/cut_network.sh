#!/usr/bin/env bash
# Hosts that cannot reach each other are named within twice --timeout, mpirun ends within 10 s more, and no process stays
# on either side. Hosts whose ranks are stopped for longer than that are not blamed. The hosts are network namespaces on
# one bridge. Needs root, ip and Open MPI 4.
# usage: cut_network.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
own=lockstep$$  # of the namespaces: $own-0 is the bridge, $own-1 to $own-3 are 192.0.2.1 to 192.0.2.3
timeout=4
limit=90

# In every host; it fails if a process was still there.
kill_all() {
  local i left=
  for i in 1 2 3; do left+=$(ip netns pids "$own-$i" | tr '\n' ' '); done 2>/dev/null
  # shellcheck disable=SC2086  # a list of processes
  [[ -z $left ]] || ! kill -KILL $left
}
remove_hosts() {
  kill_all
  for i in 0 1 2 3; do ip netns del "$own-$i"; done
} 2>/dev/null
trap 'remove_hosts; tidy' EXIT
make_hosts() {
  ip netns add "$own-0" && ip -n "$own-0" link add bridge type bridge && ip -n "$own-0" link set bridge up || return
  for i in 1 2 3; do
    ip netns add "$own-$i" && ip -n "$own-0" link add "port$i" type veth peer name eth0 netns "$own-$i" || return
    ip -n "$own-0" link set "port$i" master bridge up && ip -n "$own-$i" link set lo up || return
    ip -n "$own-$i" addr add "192.0.2.$i/24" dev eth0 && ip -n "$own-$i" link set eth0 up || return
  done
}
# How mpirun gets to a host: AGENT [OPTION...] HOST COMMAND...
cat >"$folder/agent" <<AGENT
#!/usr/bin/env bash
while [[ \$1 == -* ]]; do shift; done
number=\${1##*.}
shift
cd '$PWD' && exec ip netns exec "$own-\$number" unshare --uts bash -c 'hostname "test-host-\$0"; exec bash -c "\$1"' "\$number" "\$*"
AGENT
chmod +x "$folder/agent"
start_on() {  # HOSTS RANKS_OF_EACH PROGRAM OPTIONS...: in the background, as launch() does
  local hosts='' each=$2 count=$1 program=$3 i
  for ((i = 1; i <= count; i++)); do hosts+=,192.0.2.$i:$each; done
  shift 3
  began=$SECONDS
  : >"$folder/out"
  set -m
  # shellcheck disable=SC2016
  timeout --kill-after=5 $limit env -u OMPI_MCA_btl ip netns exec "$own-1" unshare --uts bash -c 'hostname test-host-1; exec "$@"' - \
    mpirun --mca plm rsh --mca plm_rsh_agent "$folder/agent" --mca plm_rsh_no_tree_spawn 1 --mca oob_tcp_if_include eth0 \
    --mca btl_tcp_if_include eth0 --mca btl tcp,vader,self --mca orte_tmpdir_base "$folder" --host "${hosts#,}" --map-by "ppr:$each:node" -np $((count * each)) \
    "$program" "$@" >"$folder/out" 2>"$folder/raw" </dev/null &
  launcher=$!
  set +m
}
train_on() { start_on "$1" "$2" "$build/train_cifar" "${small[@]}" --global-batch 12 --model resnet_small --timeout $timeout "${@:3}"; }
ranks_on() {  # HOST: the processes of its ranks
  local pid
  for pid in $(ip netns pids "$own-$1"); do
    [[ $(<"/proc/$pid/comm") != train_cifar ]] || echo "$pid"
  done
} 2>/dev/null

{ make_hosts && start_on 3 1 hostname && collect && grep -qx test-host-3 "$folder/out"; } 2>/dev/null ||
  skip "no hosts can be made here (root, ip of iproute2, Open MPI 4)"

named() { grep -qE '^train_cifar: host test-host-[123] cannot reach host' "$folder/raw"; }
# Packets of host $1 to host $2 go to a card that is not there, those of host $2 arrive.
misdirect() { ip -n "$own-$1" neigh replace "192.0.2.$2" lladdr 02:00:00:00:00:99 dev eth0 nud permanent; }
unplug() { ip -n "$own-$1" link set eth0 down; }
restore() {
  for i in 1 2 3; do
    ip -n "$own-$i" link set eth0 up
    ip -n "$own-$i" neigh flush all nud permanent
  done
}
expect_cut() {  # WHAT NAMES (of the line) COMMAND...: what COMMAND does to a run is named in time, and ends it
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
  expect "$what: the hosts are named" grep -qE "^train_cifar: host $names, .* at step [0-9]+" "$folder/err"
  expect "$what: one line" test "$(wc -l <"$folder/err")" = 1
  await 10 all_gone
  expect "$what: no process stays" kill_all
  echo "$what: named after $((end - cut)) s, exit code $code"
  restore
}
all_gone() { [[ -z $(for i in 1 2 3; do ip netns pids "$own-$i"; done) ]]; }

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
# An administrator closes the heartbeat. Ports near 1024 are those of MPI.
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
kill_all

train_on 2 2
await 60 has_done 9
stop_host "a stopped host"
expect_cut "an unplugged host" 'test-host-1 cannot reach host test-host-2' unplug 2

train_on 2 1
expect_cut "packets of one direction are lost" 'test-host-1 cannot reach host test-host-2' misdirect 2 1

train_on 3 1
expect_cut "two hosts that mpirun reaches" 'test-host-(2 cannot reach host test-host-3|3 cannot reach host test-host-2)' misdirect 2 3

train_on 3 1
expect_cut "a host of three" 'test-host-(1|3) cannot reach host test-host-2' unplug 2

train_on 3 1
expect_cut "the host of mpirun" 'test-host-1 cannot reach host test-host-2 and test-host-3' unplug 1
finish
