#!/usr/bin/env bash
# Installs what the tests need, builds everything, and passes every test.
set -euo pipefail
# shellcheck source=SCRIPTDIR/common.sh
. "$(dirname "$0")/common.sh"

usage() {
  cat <<'HELP'
usage: scripts/test.sh [ctest options]

Installs what is missing (apt-get; asks for sudo only if needed), builds, and runs all tests; for example
    scripts/test.sh -L unit            only those without MPI
    scripts/test.sh -R mpi.reducers    only those with this in their name
The exit code is that of ctest: 0 if all pass. Tests whose tools are not installed (SLURM, TensorBoard) are skipped; the
last line says which, and what to install.

Environment:
  LOCKSTEP_BUILD   build folder (default: build)
HELP
}

for argument in "$@"; do
  if [[ $argument == -h || $argument == --help ]]; then usage; exit 0; fi
done

"$root/scripts/install_dependencies.sh" --tests
configure -DLOCKSTEP_TESTS=ON -DLOCKSTEP_BENCH=ON
compile
# One job more than cores, for many tests wait; those of several ranks that compute all the time book two, so that timeouts
# hold on a small machine.
code=0
ctest --test-dir "$build" --no-tests=error --output-on-failure -j "$(($(usable_cores) + 1))" "$@" || code=$?
skipped=$(awk '/^[0-9]+\/[0-9]+ Testing: / { name = $3 } sub(/^skipped: /, "") { print name ": " $0 }' \
  "$build/Testing/Temporary/LastTest.log" 2>/dev/null | sort -u | paste -sd';' | sed 's/;/; /g')
echo "test.sh: skipped: ${skipped:-nothing}"
exit $code
