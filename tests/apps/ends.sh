#!/usr/bin/env bash
# Each row of docs/ends.md is true: what a run keeps at an end, its exit code and message, and where the same command goes on.
# Without REGEX: the first row of each kind; `.` walks all.
# processors: 2
# usage: ends.sh BUILD_FOLDER [REGEX]
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
unshare -m true 2>/dev/null || skip "no disk can be mounted here (root)"
# In a space of its own for mounts, so that nothing is left mounted.
unshare -m "$python" "$here/ends.py" "$build" "$folder" "${2:-}" || complain "a row"
expect "the table was walked" true
finish
