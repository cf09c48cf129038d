#!/usr/bin/env bash
# The unit tests of collectives/ and runs of two ranks under ThreadSanitizer, which must stay silent about our own code.
# usage: tests/races.sh [BUILD_FOLDER]: configured and built here (default: build-tsan)
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build-tsan}
units=(buckets plans process shard_sum silence watchdog)

cmake --preset tsan -B "$build" -DLOCKSTEP_BENCH=OFF >/dev/null
cmake --build "$build" --target train_cifar "${units[@]}" >"$build/build.log" 2>&1 || { tail -n 40 "$build/build.log"; exit 1; }

# MPI, OpenMP and oneDNN are not compiled for it: what they do among themselves cannot be judged. The tests of the
# watchdog fork. An address layout that ThreadSanitizer does not know (kernels since 6.5) is not asked for.
export TSAN_OPTIONS='ignore_noninstrumented_modules=1 die_after_fork=0 exitcode=66'
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe OMP_NUM_THREADS=1
for unit in "${units[@]}"; do
  setarch "$(uname -m)" -R timeout 300 "$build/tests/$unit" --gtest_brief=1
done
for options in '--reducer shared --progress poll' '--reducer tree --progress poll' '--reducer tree --progress thread' \
  '--reducer shared --progress thread'; do
  echo "== mpirun -np 2 train_cifar $options"
  # shellcheck disable=SC2086  # a list of options
  setarch "$(uname -m)" -R timeout 300 mpirun -np 2 "$build/train_cifar" --steps 5 --global-batch 8 --threads 1 \
    --eval-every 0 --log-every 1 --timeout 300 $options | tail -n 1
done
echo "races: none were seen"
