#!/usr/bin/env bash
# Installs what the tests need, builds everything, and runs all tests.
set -euo pipefail
# shellcheck source=SCRIPTDIR/common.sh
. "$(dirname "$0")/common.sh"

usage() {
  cat <<'HELP'
usage: scripts/test.sh [ctest options]

Installs missing packages (apt-get; sudo only if needed; 600 MB on a fresh machine), builds, and runs all tests. For example:
    scripts/test.sh -L unit            only tests without MPI
    scripts/test.sh -R mpi.reducers    only tests with this in their name
    scripts/test.sh --save-times       all tests; writes the time of each to tests/times.txt
ctest starts the tests with the longest times first.
The exit code is that of ctest: 0 if all tests pass. Tests are skipped that need a GPU, root, or a package that only PyPI has
(PyTorch, Keras, ONNX Runtime, TensorBoard). The last line names them and what to install.

Environment:
  LOCKSTEP_BUILD   build folder (default: build)
HELP
}

save_times=no arguments=()
for argument in "$@"; do
  case $argument in
    -h | --help) usage; exit 0 ;;
    --save-times) save_times=yes ;;
    *) arguments+=("$argument") ;;
  esac
done

# Writes the seconds of the tests that passed to tests/times.txt. A test that did not run keeps its line.
write_times() {  # RESULTS
  local times=$root/tests/times.txt
  {
    grep '^#' "$times"
    {
      ctest --test-dir "$build" -N | sed -n 's/^ *Test *#[0-9]*: \([^ ]*\).*/known \1/p'
      sed -nE 's/^([a-z]+\.[^ ]+) ([0-9.]+)$/time \1 \2/p' "$times"
      sed -nE 's/.*<testcase name="([^"]*)".* time="([0-9.]+)" status="run".*/time \1 \2/p' "$1"
    } | awk '$1 == "known" { known[$2] = 1 }
             $1 == "time" && ($2 in known) { seconds[$2] = $3 }
             END { for (name in seconds) printf "%s %.1f\n", name, seconds[name] }' | LC_ALL=C sort
  } >"$times.new"
  mv "$times.new" "$times"
}

require_own_build
"$root/scripts/install_dependencies.sh" --tests
configure -DLOCKSTEP_TESTS=ON -DLOCKSTEP_BENCH=ON
compile
# One job more than cores, because many tests wait. Tests with several computing ranks count as two jobs. So they meet
# their time limits on a small machine.
code=0
results=$build/Testing/results.xml
rm -f "$results"
ctest --test-dir "$build" --output-junit "$results" --no-tests=error --output-on-failure -j "$(($(usable_cores) + 1))" \
  ${arguments[@]+"${arguments[@]}"} || code=$?
if [[ $save_times == yes ]]; then write_times "$results"; fi
# A test that passes may also print such lines, so only tests that ctest counts as skipped are named.
skipped=$(awk 'FNR == NR { if (match($0, /<testcase name="[^"]*"/)) name = substr($0, RSTART + 16, RLENGTH - 17)
                           if (/<skipped /) is_skipped[name] = 1; next }
               /^[0-9]+\/[0-9]+ Testing: / { name = $3 }
               name in is_skipped && sub(/^skipped: /, "") { print name ": " $0 }' \
  "$results" "$build/Testing/Temporary/LastTest.log" 2>/dev/null | sort -u | paste -sd';' | sed 's/;/; /g' || true)
echo "test.sh: skipped: ${skipped:-nothing}"
exit $code
