#!/usr/bin/env bash
# The main job in one command: installs what is missing, builds, and trains with one MPI rank per core.
set -euo pipefail
# shellcheck source=SCRIPTDIR/common.sh
. "$(dirname "$0")/common.sh"
program=${LOCKSTEP_PROGRAM:-train_cifar}

usage() {
  cat <<HELP
usage: scripts/train.sh [$program options]

Installs what is missing (apt-get; asks for sudo only if needed), builds, and runs
    mpirun -np CORES build/$program [$program options]
with one rank per core that this shell may use. Its exit code is $program's: 0 done, 75 stopped on request after a
checkpoint (the same command continues), 1 failed, 2 wrong options.
Ctrl-C, SIGTERM and SIGHUP ask for a checkpoint and a clean end; a second one ends at once.

Environment:
  LOCKSTEP_RANKS   number of ranks instead of one per core (here: $(usable_cores))
  LOCKSTEP_BUILD   build folder (default: build)
  LOCKSTEP_PROGRAM the program: train_cifar, train_mnist or train_reuters
  LOCKSTEP_CUDA    ON builds for GPUs on a machine without any, OFF leaves them out (default: GPUs of this machine)

HELP
  if [[ -x $build/$program ]]; then
    as_root_variables
    "$build/$program" --help
  else
    echo "$program is not built yet: its own options are shown here after the first run (or: scripts/train.sh --list)."
  fi
}

# mpirun hands SIGUSR1 on to the ranks, but takes SIGINT and SIGTERM for "kill them in a second".
stop_requests=0
stop() {
  stop_requests=$((stop_requests + 1))
  if [[ $stop_requests == 1 ]]; then
    echo "train.sh: asked to stop: waiting for a checkpoint (once more to end at once)." >&2
    hand_on USR1
  else
    hand_on TERM
  fi
}
hand_on() {  # $! is mpirun, and set before any trap can run
  interrupted=1
  [[ -n ${!:-} ]] || exit 130
  kill -"$1" $! 2>/dev/null || true
}

for argument in "$@"; do
  if [[ $argument == -h || $argument == --help ]]; then usage; exit 0; fi
done
cores=$(usable_cores)
ranks=${LOCKSTEP_RANKS:-$cores}
[[ $ranks =~ ^[1-9][0-9]*$ ]] || fail "LOCKSTEP_RANKS=$ranks is not a number of ranks: give 1 or more, or unset it." 2

choose_cuda
built_for=$(sed -n 's/^LOCKSTEP_CUDA:[A-Z]*=//p' "$build/CMakeCache.txt" 2>/dev/null || true)
if [[ -f $build/CMakeCache.txt ]]; then
  "$root/scripts/install_dependencies.sh"
  if [[ -n ${LOCKSTEP_CUDA:-} && ${cuda[0]} != "-DLOCKSTEP_CUDA=$built_for" ]]; then
    configure "${cuda[@]}"
  elif [[ $built_for == OFF && ${cuda[*]} == *ARCHITECTURES* ]]; then
    echo "train.sh: $build is a build without CUDA. To use the GPU, run: LOCKSTEP_CUDA=ON scripts/train.sh" >&2
  fi
else
  # Without CUDA no headers of cuDNN's front end are fetched.
  if [[ ${cuda[*]} == *=OFF ]]; then without=OFF; fi
  LOCKSTEP_CUDA=${without:-${LOCKSTEP_CUDA:-}} "$root/scripts/install_dependencies.sh"
  if [[ -n ${without:-} && -z ${LOCKSTEP_CUDA:-} ]]; then
    echo "train.sh: this machine has no GPU, so the build is for CPU cores. To build for GPUs, run: LOCKSTEP_CUDA=ON scripts/train.sh" >&2
  fi
  configure -DLOCKSTEP_TESTS=OFF -DLOCKSTEP_BENCH=OFF "${cuda[@]}"
fi
compile --target "$program" evaluate
mpi_variables "$ranks" "$cores"

echo "train.sh: mpirun -np $ranks $build/$program $*" >&2
trap stop INT TERM HUP
trap 'hand_on USR1' USR1
# In a process group of its own, so that Ctrl-C reaches this script only.
set -m
mpirun -np "$ranks" "$build/$program" "$@" </dev/null &
set +m
while :; do
  interrupted=0 code=0
  wait $! || code=$?
  [[ $interrupted == 1 ]] || exit "$code"  # a signal ends a wait early
done
