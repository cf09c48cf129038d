#!/usr/bin/env bash
# Two hosts, as far as one machine can be two: in network namespaces with names of their own, between which MPI has TCP
# alone. Which reducer auto takes there and why, also when the link is slow, and that neither hosts nor the wire between
# them change a bit of the result of one host. Needs root, ip and Open MPI 4.
# usage: hosts.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
own=lockstep$$  # of the namespaces: $own-1 and $own-2, where 192.0.2.1 and 192.0.2.2 are

remove_hosts() {
  ip netns del "$own-1"
  ip netns del "$own-2"
} 2>/dev/null
trap 'tidy; remove_hosts' EXIT
make_hosts() {
  ip netns add "$own-1" && ip netns add "$own-2" && ip -n "$own-1" link add eth0 type veth peer name eth0 netns "$own-2" || return
  for i in 1 2; do
    ip -n "$own-$i" addr add "192.0.2.$i/24" dev eth0 && ip -n "$own-$i" link set eth0 up && ip -n "$own-$i" link set lo up || return
  done
}
# $folder/shm-1 and shm-2: the size of a /dev/shm that the host mounts for itself, and the bytes that others have taken.
cat >"$folder/become" <<'BECOME'
hostname "test-host-$1"
if [[ -s $2 ]]; then
  read -r size taken <"$2"
  mount -t tmpfs -o "size=$size" lockstep-test /dev/shm && head -c "$taken" /dev/zero >/dev/shm/taken
fi
BECOME
# How mpirun gets to a host: AGENT [OPTION...] HOST COMMAND...
cat >"$folder/agent" <<AGENT
#!/usr/bin/env bash
while [[ \$1 == -* ]]; do shift; done
number=\${1##*.}
shift
cd '$PWD' && exec ip netns exec "$own-\$number" unshare --uts bash -c '. "$folder/become" "\$0" "$folder/shm-\$0"; exec bash -c "\$1"' "\$number" "\$*"
AGENT
chmod +x "$folder/agent"
on_hosts() {  # RANKS_OF_EACH PROGRAM OPTIONS...: as ranks() does
  local each=$1 program=$2
  shift 2
  # shellcheck disable=SC2016
  run env -u OMPI_MCA_btl ip netns exec "$own-1" unshare --uts bash -c '. "$0/become" 1 "$0/shm-1"; exec "$@"' "$folder" \
    mpirun --mca plm rsh --mca plm_rsh_agent "$folder/agent" --mca plm_rsh_no_tree_spawn 1 --mca oob_tcp_if_include eth0 \
    --mca btl_tcp_if_include eth0 --mca btl tcp,vader,self --mca btl_vader_backing_directory "$folder" --host "192.0.2.1:$each,192.0.2.2:$each" \
    --map-by "ppr:$each:node" -np $((2 * each)) "$program" "$@"
}

{ make_hosts && on_hosts 1 hostname && grep -qx test-host-2 "$folder/out"; } 2>/dev/null ||
  skip "no two hosts can be made here (root, ip of iproute2, Open MPI 4)"

four=(--shards 4 --momentum 0.9 --steps 3 --checkpoint-dir)
train_on_hosts() {  # RANKS_OF_EACH OPTIONS...
  on_hosts "$1" "$build/train_cifar" "${small[@]}" "${@:2}"
  expect "it trains on two hosts" test "$code" = 0
}
train 2 "${four[@]}" "$folder/one"

train_on_hosts 1 "${four[@]}" "$folder/two"
expect_line "auto says what it has measured" '^reducer .*; chosen because .* at [0-9]+ us and [0-9.e+]+ GB/s between hosts'
expect_same_state "two hosts" "$(step_file "$folder/one" 3)" "$(step_file "$folder/two" 3)"

# With a thousandth of the bandwidth, the next run measures so.
if ip netns exec "$own-1" tc qdisc add dev eth0 root tbf rate 10mbit burst 32kb latency 100ms 2>/dev/null; then
  train_on_hosts 1 "${four[@]}" "$folder/slow"
  expect_line "a slower link is measured" '^reducer .* at [0-9]+ us and 0.0[0-9.]+ GB/s between hosts'
  expect_same_state "two hosts with a slow link" "$(step_file "$folder/one" 3)" "$(step_file "$folder/slow" 3)"
  ip netns exec "$own-1" tc qdisc del dev eth0 root
fi

train_on_hosts 2 "${four[@]}" "$folder/pairs"
expect_line "with several ranks on each it is hierarchical" '^reducer +hierarchical \(4 ranks; chosen because hosts hold several ranks each, .* between 2 hosts\)'
expect_same_state "two hosts of two ranks" "$(step_file "$folder/one" 3)" "$(step_file "$folder/pairs" 3)"

for run in first second; do
  train_on_hosts 1 --shards 2 --steps 4 --wire bf16 --loss-scale dynamic --loss-scale-steps 2 --checkpoint-dir "$folder/$run"
done
expect_line "16 bits between hosts" '^reducer +direct \(2 ranks; chosen because it sends 16 bits between hosts; bf16 between them\)'
expect_same_state "the same in every run" "$(step_file "$folder/first" 4)" "$(step_file "$folder/second" 4)"

on_hosts 1 "$build/train_cifar" "${small[@]}" --steps 1 --reducer shared
expect_error "memory of one host" 1 'the reducer shared needs all ranks on one host, but only 1 of 2 are on test-host-1: choose --reducer auto or tree$'

# One host has no room for the window. All hosts end with its reason, long before --timeout.
limit=30
agreed=('' '' 'rank 2 \(test-host-2\): ')  # by host: as one error of all ranks
for host in 1 2; do
  echo 2m 0 >"$folder/shm-$host"
  on_hosts 2 "$build/train_cifar" "${small[@]}" --steps 1 --reducer hierarchical
  expect_error "host $host has a small /dev/shm" 1 "^train_cifar: ${agreed[host]}the reducer shared needs .* on test-host-$host, .*/dev/shm has [12]\.[0-9] MiB"
  rm "$folder/shm-$host"
done
echo 4k 4k >"$folder/shm-2"
on_hosts 2 "$build/train_cifar" "${small[@]}" --steps 1
expect_error "a host has none at the start" 1 '^train_cifar: .*the start-up needs .* on test-host-2, .*/dev/shm has 0\.0 MiB'
finish
