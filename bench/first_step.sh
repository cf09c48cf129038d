#!/usr/bin/env bash
# Times everything from mpirun to the end of the first training step: process start, MPI, data, kernels.
#   [RUNS=5] [RANKS=2] bench/first_step.sh [train_cifar options]    prints each run and the median, in seconds
set -euo pipefail
build=${LOCKSTEP_BUILD:-$(cd "$(dirname "$0")/.." && pwd)/build}
runs=${RUNS:-5}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

for ((run = 0; run < runs; ++run)); do
  start=$(date +%s%N)
  # The rest of the run is not timed, but it must end before the next run starts.
  mpirun -np "${RANKS:-2}" "$build/train_cifar" --no-run --threads 1 --steps 1 "$@" 2>&1 |
    { grep -m 1 -E '(^| )step 1/' >/dev/null; echo $(($(date +%s%N) - start)); cat >/dev/null; }
done | awk '{ printf "%.3f\n", $1 / 1e9; printf "%.3f\n", $1 / 1e9 >"/dev/stderr" }' | sort -n |
  awk '{ seconds[NR] = $1 } END { print "median " seconds[int((NR + 1) / 2)] " s of " NR " runs" }'
