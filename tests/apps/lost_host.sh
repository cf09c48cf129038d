#!/usr/bin/env bash
# lockstep_run on two hosts (lib_hosts.sh): a host whose network is cut is left out, and it joins when it answers again. The
# weights are those of an undisturbed run.
# usage: lost_host.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=SCRIPTDIR/lib_hosts.sh
. "$(dirname "$0")/lib_hosts.sh"
need_h5py
trap 'tidy; remove_hosts 2' EXIT
cd "$folder" || exit 1
small_checkpoints

{ make_hosts 2 && across 2 1 && run "${across[@]}" hostname && grep -qx test-host-2 "$folder/out"; } 2>/dev/null ||
  skip "no two hosts can be made here (root, ip of iproute2, Open MPI 4)"

# An agent that reaches a host only over the network.
{
  echo '#!/usr/bin/env bash'
  echo 'while [[ $1 == -* ]]; do shift; done'
  echo "ip netns exec $own-1 timeout 1 bash -c 'exec 3<>/dev/tcp/\$0/9' \$1 2>/dev/null; [[ \$? != 124 ]] || exit 255"
  echo "exec $folder/agent \"\$@\""
} >"$folder/network_agent"
chmod +x "$folder/network_agent"
for i in 1 2; do echo "192.0.2.$i slots=1"; done >"$folder/hosts"
options=("${small[@]}" --global-batch 24 --shards 4 --momentum 0.9 --ema 0 --run)
settings=(OMPI_MCA_plm=rsh OMPI_MCA_plm_rsh_agent="$folder/network_agent" OMPI_MCA_plm_rsh_no_tree_spawn=1
  OMPI_MCA_oob_tcp_if_include=eth0 OMPI_MCA_btl_tcp_if_include=eth0 OMPI_MCA_btl=tcp,vader,self OMPI_MCA_orte_tmpdir_base="$folder")

told() { grep -q "$1" "$folder/raw"; }
reached() { test "$(sed -n 's/^step \([0-9]*\).*/\1/p' "$folder/out" | tail -n 1)" -gt "$1"; }

began=$SECONDS
set -m
# shellcheck disable=SC2016
env "${settings[@]}" ip netns exec "$own-1" unshare --uts bash -c '. "$0/become" 1 "$0/shm-1"; exec "$@"' "$folder" \
  timeout --kill-after=5 $limit "$build/lockstep_run" --hostfile hosts "$build/train_cifar" "${options[@]}" "$folder/hosts_run" \
  --steps 100000 --checkpoint-every 5 >"$folder/out" 2>"$folder/raw" </dev/null &
launcher=$!
set +m
await 30 reached 10
ip -n "$own-2" link set eth0 down
await 20 told 'lost host 192.0.2.2 (rank 1) at step .*; 1 rank goes on from step'
ip -n "$own-2" link set eth0 up
await 20 told 'host 192.0.2.2 joins at step .*; 2 ranks go on from step'
pkill -TERM -g "$launcher" -x lockstep_run
collect
expect "it stops on request: $code" test $code = 75
last=$(find hosts_run/checkpoints -name 'step-*.h5' | sort | tail -n 1)
step=${last##*step-} step=$((10#${step%.h5}))
train 2 "${options[@]}" "$folder/whole" --steps $step
expect_same_state "a host that was lost and joined changes no bit" "$(step_file "$folder/whole" $step)" "$last"
expect "summary.json lists both changes" test "$(grep -c '"change": ' "$folder/hosts_run/summary.json")" = 2
finish
