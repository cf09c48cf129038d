# A private SLURM cluster for tests (sourced, not run): cluster_start, cluster_stop. It has $cluster_nodes nodes (default: 1)
# n1, n2, ..., each with $cluster_cpus processors (default: 2). A single node has the name of this host. All its files are in one temporary folder, and it listens only on the loopback address. It needs
# root, but neither systemd nor control groups. It does not change any cluster that this machine belongs to.
# Ranks on two nodes share /dev/shm and the host's name.
# shellcheck shell=bash

# Prints why the cluster cannot start here, or nothing if it can.
cluster_missing() {
  local command
  for command in slurmctld slurmd munged sbatch srun; do
    command -v "$command" >/dev/null || { echo "$command is not installed (scripts/install_dependencies.sh --tests)"; return; }
  done
  [[ $(id -u) == 0 ]] || echo "a private SLURM cluster needs root"
}

cluster_fail() {
  echo "$1" >&2
  tail -n 20 "$cluster"/*.log >&2
  return 1
}

# Prints a TCP port that no process listens on.
free_port() {
  local port
  while port=$((20000 + RANDOM % 10000)); (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done
  echo "$port"
}

# Sets `cluster` (its folder) and SLURM_CONF.
cluster_start() {
  local host try i nodes
  host=$(hostname -s)
  nodes=("$host")
  [[ ${cluster_nodes:-1} == 1 ]] || mapfile -t nodes < <(printf 'n%d\n' $(seq "$cluster_nodes"))
  cluster=$(mktemp -d /tmp/lockstep-slurm.XXXXXX)  # short: paths of sockets are limited to 108 characters
  export SLURM_CONF=$cluster/slurm.conf
  chmod 755 "$cluster"
  mkdir "$cluster"/{munge,state,spool,tmp}
  mkdir "${nodes[@]/#/$cluster/spool/}" "${nodes[@]/#/$cluster/tmp/}"
  chmod 700 "$cluster/munge"
  (umask 377 && head -c 1024 /dev/urandom >"$cluster/munge/key")
  cat >"$SLURM_CONF" <<CONF
ClusterName=lockstep
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(free_port)
# MPI names its shared memory after the job number, so two such clusters on one machine must use different numbers.
FirstJobId=$((1 + RANDOM % 30000 * 100))
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
# A requeued job waits until its old credential has expired: 5 s instead of 120.
AuthInfo=socket=$cluster/munge.socket,cred_expire=5
StateSaveLocation=$cluster/state
SlurmdSpoolDir=$cluster/spool/%n
SlurmctldPidFile=$cluster/slurmctld.pid
SlurmdPidFile=$cluster/slurmd-%n.pid
SlurmctldLogFile=$cluster/slurmctld.log
SlurmdLogFile=$cluster/slurmd-%n.log
TmpFS=$cluster/tmp/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MailProg=/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,bf_interval=1,sched_interval=2,sched_min_interval=0
MpiDefault=none
JobRequeue=1
KillWait=10
ReturnToService=2
# The configured number of processors counts, not that of the machine.
SlurmdParameters=config_overrides
PartitionName=test Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
  for i in "${nodes[@]}"; do
    echo "NodeName=$i NodeHostname=$i NodeAddr=127.0.0.1 Port=$(free_port) CPUs=${cluster_cpus:-2} State=UNKNOWN"
  done >>"$SLURM_CONF"
  munged --force --num-threads=2 --key-file="$cluster/munge/key" --socket="$cluster/munge.socket" \
    --pid-file="$cluster/munged.pid" --log-file="$cluster/munged.log" --seed-file="$cluster/munge/seed" ||
    { cluster_fail "munged did not start"; return 1; }
  slurmctld -f "$SLURM_CONF" || { cluster_fail "slurmctld did not start"; return 1; }
  for i in "${nodes[@]}"; do
    slurmd -f "$SLURM_CONF" -N "$i" || { cluster_fail "slurmd did not start"; return 1; }
  done
  for ((try = 0; try < 150; try++)); do
    [[ $(sinfo --noheader --states=idle --format=%D 2>/dev/null) != "${#nodes[@]}" ]] || return 0
    sleep 0.2
  done
  cluster_fail "the nodes did not become idle within 30 s"
}

# Ends the jobs, ends the daemons by their pid files, and removes the folder. Safe to call at any time.
cluster_stop() {
  local file pid try
  [[ -n ${cluster:-} ]] || return 0
  if [[ -n $(squeue --noheader 2>/dev/null) ]]; then
    scancel --user=root 2>/dev/null
    for ((try = 0; try < 75; try++)); do
      [[ -n $(squeue --noheader 2>/dev/null) ]] || break
      sleep 0.2
    done
  fi
  for file in "$cluster"/{slurmd-*,slurmctld,munged}.pid; do
    pid=$(cat "$file" 2>/dev/null) || continue
    kill "$pid" 2>/dev/null
    for ((try = 0; try < 20; try++)); do
      grep -q '^State:[[:space:]]*[^ZX]' "/proc/$pid/status" 2>/dev/null || continue 2  # it ended, or is a zombie
      sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null  # the controller would save its state for 5 s, which no test needs
  done
  rm -rf "$cluster"
}
