#!/usr/bin/env bash
# Trains with one command: installs missing packages, builds, and starts one MPI rank per core.
set -euo pipefail
# shellcheck source=SCRIPTDIR/common.sh
. "$(dirname "$0")/common.sh"
program=${LOCKSTEP_PROGRAM:-train_cifar}

usage() {
  cat <<HELP
usage: scripts/train.sh [$program options]

Installs missing packages (apt-get; sudo only if needed), builds, and runs
    mpirun -np CORES build/$program [$program options]
with one rank per core that this shell may use. The exit code is that of $program: 0 done, 1 failed, 2 wrong options,
75 stopped on request after a checkpoint (the same command continues).
Ctrl-C, SIGTERM and SIGHUP request a checkpoint and a clean end. A second signal ends the run at once.

Environment:
  LOCKSTEP_RANKS   number of ranks (default: one per core, here $(usable_cores))
  LOCKSTEP_BUILD   build folder (default: build)
  LOCKSTEP_PROGRAM train_cifar, train_mnist, train_reuters or train_images (default: train_cifar)
  LOCKSTEP_CUDA    ON: build for GPUs on a machine without one; OFF: no GPUs (default: the GPUs of this machine)

HELP
  if [[ -x $build/$program ]]; then
    as_root_variables
    "$build/$program" --help
  else
    echo "$program is not built yet. After the first run (or scripts/train.sh --list) its options are shown here."
  fi
}

# mpirun forwards SIGUSR1 to the ranks. After SIGINT or SIGTERM it kills them within a second.
stop_requests=0
stop() {
  stop_requests=$((stop_requests + 1))
  if [[ $stop_requests == 1 ]]; then
    echo "train.sh: stop requested, waiting for a checkpoint. Repeat the signal to end at once." >&2
    forward USR1
  else
    forward TERM
  fi
}
forward() {  # $! is mpirun; it is empty before mpirun starts
  interrupted=1
  [[ -n ${!:-} ]] || exit 130
  kill -"$1" $! 2>/dev/null || true
}

for argument in "$@"; do
  if [[ $argument == -h || $argument == --help ]]; then usage; exit 0; fi
done
cores=$(usable_cores)
ranks=${LOCKSTEP_RANKS:-$cores}
[[ $ranks =~ ^[1-9][0-9]*$ ]] || fail "LOCKSTEP_RANKS=$ranks is not a number of ranks. Set it to 1 or more, or unset it." 2

require_own_build
choose_cuda
built_for=$(sed -n 's/^LOCKSTEP_CUDA:[A-Z]*=//p' "$build/CMakeCache.txt" 2>/dev/null || true)
if [[ -f $build/CMakeCache.txt ]]; then
  "$root/scripts/install_dependencies.sh"
  if [[ -n ${LOCKSTEP_CUDA:-} && ${cuda[0]} != "-DLOCKSTEP_CUDA=$built_for" ]]; then
    configure "${cuda[@]}"
  elif [[ $built_for == OFF && ${cuda[*]} == *ARCHITECTURES* ]]; then
    echo "train.sh: $build was built without CUDA. To use the GPU, run: LOCKSTEP_CUDA=ON scripts/train.sh" >&2
  fi
else
  # A build without CUDA needs no headers of cuDNN's front end.
  if [[ ${cuda[*]} == *=OFF ]]; then without=OFF; fi
  LOCKSTEP_CUDA=${without:-${LOCKSTEP_CUDA:-}} "$root/scripts/install_dependencies.sh"
  if [[ -n ${without:-} && -z ${LOCKSTEP_CUDA:-} ]]; then
    echo "train.sh: this machine has no GPU, so the build is without CUDA. To build for GPUs, run: LOCKSTEP_CUDA=ON scripts/train.sh" >&2
  fi
  configure -DLOCKSTEP_TESTS=OFF -DLOCKSTEP_BENCH=OFF "${cuda[@]}"
fi
compile --target programs
mpi_variables "$ranks" "$cores"

echo "train.sh: mpirun -np $ranks $build/$program $*" >&2
trap stop INT TERM HUP
trap 'forward USR1' USR1
# mpirun gets its own process group, so that Ctrl-C reaches only this script.
set -m
mpirun -np "$ranks" "$build/$program" "$@" </dev/null &
set +m
while :; do
  interrupted=0 code=0
  wait $! || code=$?
  [[ $interrupted == 1 ]] || exit "$code"  # a signal interrupts `wait`
done
