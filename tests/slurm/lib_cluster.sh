# A private SLURM cluster of one node with $cluster_cpus (2) processors, for tests (sourced, not run): cluster_start, cluster_stop.
# Everything lies in one temporary folder; it listens on the loopback address only, needs root but neither systemd nor
# control groups, and touches no cluster that the machine may belong to.
# shellcheck shell=bash

# Why the cluster cannot be started here; empty if it can.
cluster_missing() {
  local command
  for command in slurmctld slurmd munged sbatch srun; do
    command -v "$command" >/dev/null || { echo "$command is not installed (scripts/install_dependencies.sh --slurm)"; return; }
  done
  [[ $(id -u) == 0 ]] || echo "a private SLURM cluster needs root"
}

cluster_fail() {
  echo "$1" >&2
  tail -n 20 "$cluster"/*.log >&2
  return 1
}

# A TCP port on which nothing listens.
free_port() {
  local port
  while port=$((20000 + RANDOM % 10000)); (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done
  echo "$port"
}

# Sets `cluster` (its folder) and SLURM_CONF.
cluster_start() {
  local host try
  host=$(hostname -s)
  cluster=$(mktemp -d /tmp/lockstep-slurm.XXXXXX)  # short: paths of sockets are limited to 108 characters
  export SLURM_CONF=$cluster/slurm.conf
  chmod 755 "$cluster"
  mkdir "$cluster"/{munge,state,spool,tmp}
  chmod 700 "$cluster/munge"
  (umask 377 && head -c 1024 /dev/urandom >"$cluster/munge/key")
  cat >"$SLURM_CONF" <<CONF
ClusterName=lockstep
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
# MPI names its shared memory after the number of the job: two such clusters on one machine must not share numbers.
FirstJobId=$((1 + RANDOM % 30000 * 100))
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
# A requeued job waits until its old credential has expired: 5 s instead of 120.
AuthInfo=socket=$cluster/munge.socket,cred_expire=5
StateSaveLocation=$cluster/state
SlurmdSpoolDir=$cluster/spool
SlurmctldPidFile=$cluster/slurmctld.pid
SlurmdPidFile=$cluster/slurmd.pid
SlurmctldLogFile=$cluster/slurmctld.log
SlurmdLogFile=$cluster/slurmd.log
TmpFS=$cluster/tmp
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
# Whatever the machine has.
SlurmdParameters=config_overrides
NodeName=$host NodeAddr=127.0.0.1 CPUs=${cluster_cpus:-2} State=UNKNOWN
PartitionName=test Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF
  munged --force --num-threads=2 --key-file="$cluster/munge/key" --socket="$cluster/munge.socket" \
    --pid-file="$cluster/munged.pid" --log-file="$cluster/munged.log" --seed-file="$cluster/munge/seed" ||
    { cluster_fail "munged does not start"; return 1; }
  slurmctld -f "$SLURM_CONF" || { cluster_fail "slurmctld does not start"; return 1; }
  slurmd -f "$SLURM_CONF" -N "$host" || { cluster_fail "slurmd does not start"; return 1; }
  for ((try = 0; try < 150; try++)); do
    [[ $(sinfo --noheader --states=idle --format=%D 2>/dev/null) != 1 ]] || return 0
    sleep 0.2
  done
  cluster_fail "the node does not become idle"
}

# Ends jobs and daemons, by their pid files only, and removes the folder. Safe to call at any time.
cluster_stop() {
  local name pid try
  [[ -n ${cluster:-} ]] || return 0
  if [[ -n $(squeue --noheader 2>/dev/null) ]]; then
    scancel --user=root 2>/dev/null
    for ((try = 0; try < 75; try++)); do
      [[ -n $(squeue --noheader 2>/dev/null) ]] || break
      sleep 0.2
    done
  fi
  for name in slurmd slurmctld munged; do
    pid=$(cat "$cluster/$name.pid" 2>/dev/null) || continue
    kill "$pid" 2>/dev/null
    for ((try = 0; try < 20; try++)); do
      grep -q '^State:[[:space:]]*[^ZX]' "/proc/$pid/status" 2>/dev/null || continue 2  # gone, or dead and not reaped
      sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null  # the controller takes 5 s to save a state that nobody needs
  done
  rm -rf "$cluster"
}
