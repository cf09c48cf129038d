#!/usr/bin/env bash
# The main job in one command: installs what is missing, builds, and trains with one MPI rank per core.
set -euo pipefail
# shellcheck source=SCRIPTDIR/common.sh
. "$(dirname "$0")/common.sh"

usage() {
  cat <<HELP
usage: scripts/train.sh [train_cifar options]

Installs what is missing (apt-get; asks for sudo only if needed), builds, and runs
    mpirun -np CORES build/train_cifar [train_cifar options]
with one rank per core that this shell may use. Its exit code is train_cifar's: 0 done, 75 stopped on request after a
checkpoint (the same command continues), 1 failed, 2 wrong options.
Ctrl-C, SIGTERM and SIGHUP ask for a checkpoint and a clean end; a second one ends at once.

Environment:
  LOCKSTEP_RANKS   number of ranks instead of one per core (here: $(usable_cores))
  LOCKSTEP_BUILD   build folder (default: build)

HELP
  if [[ -x $build/train_cifar ]]; then
    as_root_variables
    "$build/train_cifar" --help
  else
    echo "train_cifar is not built yet: its own options are shown here after the first run (or: scripts/train.sh --list)."
  fi
}

# Open MPI refuses root without these; root is the only user of many containers.
as_root_variables() {
  if [[ $(id -u) == 0 ]]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
}

# Variables for Open MPI 4 (OMPI_MCA_) and 5 (PRTE_MCA_); what the user has set stays.
mpi_variables() {  # ranks, usable cores
  as_root_variables
  # Open MPI binds one or two ranks to one core each, whatever their threads, and counts from core 0 whoever else is
  # there: right only if the ranks fill the machine.
  if [[ $1 != "$2" || $2 != "$(lscpu -p=CORE,SOCKET | grep -v '^#' | sort -u | wc -l)" ]]; then
    : "${OMPI_MCA_hwloc_base_binding_policy:=none}" "${PRTE_MCA_hwloc_default_binding_policy:=none}"
    export OMPI_MCA_hwloc_base_binding_policy PRTE_MCA_hwloc_default_binding_policy
  fi
  if [[ $1 -gt $2 ]]; then
    echo "train.sh: more ranks than cores ($1 on $2): they take turns, so expect no gain in speed." >&2
    : "${OMPI_MCA_rmaps_base_oversubscribe:=1}" "${PRTE_MCA_rmaps_default_mapping_policy:=:oversubscribe}"
    : "${OMPI_MCA_mpi_yield_when_idle:=1}"
    export OMPI_MCA_rmaps_base_oversubscribe PRTE_MCA_rmaps_default_mapping_policy OMPI_MCA_mpi_yield_when_idle
  fi
}

# mpirun hands SIGUSR1 on to the ranks, but takes SIGINT and SIGTERM for "kill them in a second".
stop_requests=0
stop() {
  interrupted=1
  stop_requests=$((stop_requests + 1))
  if [[ $stop_requests == 1 ]]; then
    echo "train.sh: asked to stop: waiting for a checkpoint (once more to end at once)." >&2
    kill -USR1 "$launcher" 2>/dev/null || true
  else
    kill -TERM "$launcher" 2>/dev/null || true
  fi
}

for argument in "$@"; do
  if [[ $argument == -h || $argument == --help ]]; then usage; exit 0; fi
done
cores=$(usable_cores)
ranks=${LOCKSTEP_RANKS:-$cores}
[[ $ranks =~ ^[1-9][0-9]*$ ]] || fail "LOCKSTEP_RANKS=$ranks is not a number of ranks: give 1 or more, or unset it." 2

"$root/scripts/install_dependencies.sh"
[[ -f $build/CMakeCache.txt ]] || configure -DLOCKSTEP_TESTS=OFF -DLOCKSTEP_BENCH=OFF
compile --target train_cifar evaluate
mpi_variables "$ranks" "$cores"

echo "train.sh: mpirun -np $ranks $build/train_cifar $*" >&2
# In a process group of its own, so that Ctrl-C reaches this script only.
set -m
mpirun -np "$ranks" "$build/train_cifar" "$@" </dev/null &
launcher=$!
set +m
trap stop INT TERM HUP
trap 'interrupted=1; kill -USR1 "$launcher" 2>/dev/null || true' USR1
while :; do
  interrupted=0 code=0
  wait "$launcher" || code=$?
  [[ $interrupted == 1 ]] || exit "$code"  # a signal ends a wait early
done
