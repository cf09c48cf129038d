#!/usr/bin/env bash
# Times everything from mpirun to the end of the first training step: process start, MPI, data, kernels.
set -euo pipefail
# shellcheck source=SCRIPTDIR/../scripts/common.sh
. "$(dirname "$0")/../scripts/common.sh"
runs=${RUNS:-5}

for argument in "$@"; do
  if [[ $argument == -h || $argument == --help ]]; then
    echo "usage: [RUNS=5] [RANKS=2] bench/first_step.sh [train_cifar options]"
    echo
    echo "Times runs from mpirun to the end of the first training step. Prints the seconds of each and their median."
    exit 0
  fi
done
[[ -x $build/train_cifar ]] || fail "$build/train_cifar does not exist. Build it with scripts/train.sh --check."
[[ $runs =~ ^[1-9][0-9]*$ ]] || fail "RUNS is $runs. Set it to a whole number above 0." 2
as_root_variables
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for ((run = 0; run < runs; ++run)); do
  start=$(date +%s%N)
  # The rest of the run is not timed, but it must end before the next run starts.
  mpirun -np "${RANKS:-2}" "$build/train_cifar" --no-run --threads 1 --steps 1 "$@" 2>&1 | tee "$work/log" |
    { grep -m 1 -E '(^| )step 1/' >/dev/null; echo $(($(date +%s%N) - start)) >>"$work/times"; cat >/dev/null; } || {
      tail -n 5 "$work/log" >&2
      fail "a run failed (see above)."
    }
done
awk '{ printf "%.3f\n", $1 / 1e9; printf "%.3f\n", $1 / 1e9 >"/dev/stderr" }' "$work/times" | sort -n |
  awk '{ seconds[NR] = $1 } END { print "median " seconds[int((NR + 1) / 2)] " s of " NR " runs" }'
