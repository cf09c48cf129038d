#!/usr/bin/env bash
# Runs the CUDA back end without a GPU, in tests/emulator: all GPU tests in several orders of their work, short runs of all
# programs, and plans of all models. scripts/test.sh runs the quick half. Takes up to 20 minutes on two cores.
# usage: tests/emulated.sh [ctest options]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=${LOCKSTEP_BUILD:-$root/build}
case ${1:-} in
  -h | --help) sed -n '2,4s/^# //p' "$0"; exit 0 ;;
esac
if [[ ! -d $build/tests/emulator ]]; then
  echo "emulated.sh: $build has no emulated programs. Build with -DLOCKSTEP_CUDA=ON and the tests." >&2
  exit 2
fi
cmake --build "$build" --target emulated cuda_planned_graphs
exec ctest --test-dir "$build" -C whole -L emulated --no-tests=error --output-on-failure -j "$(nproc)" "$@"
