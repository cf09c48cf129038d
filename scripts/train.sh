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
    build/lockstep_run -np CORES build/$program [$program options]
with one rank per core that this shell may use. lockstep_run starts them with mpirun, and again after a failure that a new
start can cure. The exit code is that of $program: 0 done, 2 wrong options, 75 stopped on request after a checkpoint
(the same command continues). docs/troubleshooting.md lists the others.
Ctrl-C, SIGTERM and SIGHUP request a checkpoint and a clean end. A second Ctrl-C or SIGTERM ends the run at once.

Environment:
  LOCKSTEP_RANKS   number of ranks (default: one per core, here $(usable_cores))
  LOCKSTEP_BUILD   build folder (default: build)
  LOCKSTEP_PROGRAM train_cifar, train_mnist, train_reuters, train_images or train_texts (default: train_cifar)
  LOCKSTEP_CUDA    ON: build for GPUs on a machine without one; OFF: no GPUs (default: the GPUs of this machine)

HELP
  if [[ -x $build/$program ]]; then
    as_root_variables
    "$build/$program" --help
  else
    echo "$program is not built yet. After the first run (or scripts/train.sh --list) its options are shown here."
  fi
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
if [[ $ranks -gt $cores ]]; then
  echo "train.sh: more ranks than cores ($ranks ranks, $cores cores). The ranks take turns, so training is not faster." >&2
fi
echo "train.sh: lockstep_run -np $ranks $build/$program $*" >&2
exec "$build/lockstep_run" -np "$ranks" "$build/$program" "$@"
