# Several hosts on one machine (sourced after lib.sh): network namespaces on one bridge, each with its own host name. MPI has
# only TCP between them. Needs root, ip of iproute2 and Open MPI 4. `own` is the prefix of the namespaces: $own-0 is the
# bridge, $own-1 is test-host-1 at 192.0.2.1 and 2001:db8::1, and so on.
# shellcheck shell=bash
own=lockstep$$

# Sets `on_first`, which starts a command on the first host, and `agents`, variables by which mpirun reaches the others.
make_hosts() {  # COUNT
  local i
  # shellcheck disable=SC2016,SC2034
  on_first=(env -u OMPI_MCA_btl ip netns exec "$own-1" unshare --uts bash -c '. "$0/become" 1 "$0/shm-1"; exec "$@"' "$folder")
  # shellcheck disable=SC2034
  agents=(OMPI_MCA_plm=rsh OMPI_MCA_plm_rsh_agent="$folder/agent" OMPI_MCA_plm_rsh_no_tree_spawn=1
    OMPI_MCA_orte_tmpdir_base="$folder")
  ip netns add "$own-0" && ip -n "$own-0" link add bridge type bridge && ip -n "$own-0" link set bridge up || return
  for ((i = 1; i <= $1; i++)); do
    ip netns add "$own-$i" && ip -n "$own-0" link add "port$i" type veth peer name eth0 netns "$own-$i" || return
    ip -n "$own-0" link set "port$i" master bridge up && ip -n "$own-$i" link set lo up || return
    ip -n "$own-$i" addr add "192.0.2.$i/24" dev eth0 && ip -n "$own-$i" link set eth0 up || return
    ip -n "$own-$i" addr add "2001:db8::$i/64" dev eth0 nodad  # fails on a kernel without IPv6
  done
  # $folder/shm-1 and so on, if the file exists: the size of the /dev/shm that this host mounts, and the bytes in use.
  # $host_name is the begin of the hosts' own names; the program hostname refuses an underscore.
  cat >"$folder/become" <<'BECOME'
echo "${host_name:-test-host-}$1" >/proc/sys/kernel/hostname
if [[ -s $2 ]]; then
  read -r size taken <"$2"
  mount -t tmpfs -o "size=$size" lockstep-test /dev/shm && head -c "$taken" /dev/zero >/dev/shm/taken
fi
BECOME
  # mpirun starts its daemon on a host with this: AGENT [OPTION...] HOST COMMAND...
  cat >"$folder/agent" <<AGENT
#!/usr/bin/env bash
while [[ \$1 == -* ]]; do shift; done
number=\${1##*[.:_-]}
shift
cd '$PWD' && exec ip netns exec "$own-\$number" unshare --uts bash -c '. "$folder/become" "\$0" "$folder/shm-\$0"; exec bash -c "\$1"' "\$number" "\$*"
AGENT
  chmod +x "$folder/agent"
}
processes_on() { ip netns pids "$own-$1" 2>/dev/null; }  # NUMBER_OF_HOST
remove_hosts() {  # COUNT
  local i pid
  for ((i = 1; i <= $1; i++)); do
    for pid in $(processes_on "$i"); do kill -KILL "$pid"; done
  done
  for ((i = 0; i <= $1; i++)); do ip netns del "$own-$i"; done
} 2>/dev/null

across() {  # HOSTS RANKS_PER_HOST: sets `across`, the command that starts a program on them
  local list='' i
  for ((i = 1; i <= $1; i++)); do list+=,192.0.2.$i:$2; done
  # shellcheck disable=SC2034
  across=("${on_first[@]}" mpirun --mca plm rsh --mca plm_rsh_agent "$folder/agent" --mca plm_rsh_no_tree_spawn 1
    --mca oob_tcp_if_include eth0
    --mca btl_tcp_if_include eth0 --mca btl tcp,vader,self --mca btl_vader_backing_directory "$folder"
    --mca orte_tmpdir_base "$folder" --host "${list#,}" --map-by "ppr:$2:node" -np $(($1 * $2)))
}
