#!/usr/bin/env bash
# Hosts as users name them, on two hosts (lib_hosts.sh): lockstep_run starts the ranks, or one line says what is wrong. The
# hosts may have an address in common.
# usage: host_names.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=SCRIPTDIR/lib_hosts.sh
. "$(dirname "$0")/lib_hosts.sh"
trap 'tidy; remove_hosts 2' EXIT
unset OMPI_MCA_orte_execute_quiet PRTE_MCA_prte_execute_quiet  # as users start it

{ make_hosts 2 && across 2 1 && run "${across[@]}" uname -n && grep -qx test-host-2 "$folder/out"; } 2>/dev/null ||
  skip "no two hosts can be made here (root, ip of iproute2, Open MPI 4)"

supervise() { run env "${agents[@]}" "${on_first[@]}" "$build/lockstep_run" "$@"; }
expect_hosts() {  # WHAT HOST...: the last run had one rank on each
  expect "$1: exit code $code" test "$code" = 0
  expect "$1: hosts" test "$(sort "$folder/out" | tr '\n' ' ')" = "$(printf '%s ' "${@:2}")"
  expect "$1: no message" test ! -s "$folder/raw"
}

supervise --host node_1,NODE_2. uname -n
expect_hosts "names with an underscore" test-host-1 test-host-2
supervise --hostfile <(printf 'test.host-1 slots=1\r192.0.2.2\r') uname -n
expect_hosts "a pipe with lines of an old Mac" test-host-1 test-host-2
if [[ $(ip -n "$own-1" addr show dev eth0 2>/dev/null) == *2001:db8::1* ]]; then
  supervise --host '[2001:db8::1]:1,2001:db8::2' uname -n
  expect_hosts "IPv6 addresses" test-host-1 test-host-2
  supervise --host ::1 uname -n
  expect_hosts "the loopback of IPv6" test-host-1
fi
export host_name=own_
supervise --host 192.0.2.1,192.0.2.2 uname -n
expect_hosts "hosts whose own names have an underscore" own_1 own_2
supervise -np 1 uname -n
expect_hosts "one of them" own_1
unset host_name

for host in -oProxyCommand=x fe80::1%eth0 7 node1/x ''; do
  supervise --host "192.0.2.1,$host" uname -n
  expect_error "the host '$host'" 2 "^lockstep_run: --host mpirun \"$host\""
done
supervise --hostfile "$folder" uname -n
expect_error "a folder as hosts" 2 "--hostfile $folder: Is a directory"
supervise --hostfile "$folder/none" uname -n
expect_error "no file with hosts" 2 "--hostfile $folder/none: No such file"

supervise --host 192.0.2.1,nowhere.9 uname -n
expect "a misspelt host: exit code $code" test "$code" = 0
expect "it runs on the others" grep -qx test-host-1 "$folder/out"
expect "the agent's reason" lines_with "$folder/raw" '^lockstep_run: nowhere.9 answer: namespace' >/dev/null
expect "not mpirun's, which names no host" bash -c "! grep -q '^mpirun:' '$folder/raw'"

supervise --mpirun "--mca plm nonsense" uname -n
expect "mpirun refuses: exit code $code" test "$code" = 1
expect "mpirun's own reason" lines_with "$folder/raw" '^mpirun: nonsense' >/dev/null
supervise bash -c 'echo reason >&2; exit 3'
expect "a rank that gives a reason: exit code $code" test "$code" = 3
expect "no words of mpirun" bash -c "! grep -q '^mpirun:' '$folder/raw'"

common() {  # add|del NAME ADDRESS: a bridge on both hosts
  for i in 1 2; do
    ip -n "$own-$i" link "$1" "$2" type bridge
    [[ $1 == del ]] || { ip -n "$own-$i" addr add "$3" dev "$2" && ip -n "$own-$i" link set "$2" up; }
  done
}
training=("$build/train_cifar" "${small[@]}" --model resnet_small --steps 1 --timeout 5)
plain=(env "${agents[@]}" "${on_first[@]}" mpirun --host 192.0.2.1,192.0.2.2 -np 2 "${training[@]}")
common add docker0 172.17.0.1/16
common add br-0123456789ab 172.18.0.1/16
supervise --host 192.0.2.1,192.0.2.2 "${training[@]}"
expect "lockstep_run beside Docker: exit code $code" test "$code" = 0
run "${plain[@]}"
expect "mpirun beside Docker: exit code $code" test "$code" = 0
common del docker0
common del br-0123456789ab

common add other0 172.17.0.1/16
run "${plain[@]}"
expect_error "an unknown network in common" 1 \
  '^train_cifar: test-host-1 eth0 192.0.2.1, other0 172.17.0.1. OMPI_MCA_btl_tcp_if_include'
finish
