#!/usr/bin/env bash
# A short campaign of faults (tests/campaign): runs with killed, stopped and cut off parts end with the weights of an
# undisturbed run, or with the named reason. Some are runs of mpirun alone. Skipped without root.
# usage: campaign.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
limit=300
run "$python" "$here/../campaign/campaign.py" "$build" --faults 10 --minutes 1 --seed 1 --slow 30 \
  --logs "$folder/logs"
[[ $code != 77 ]] || skip "no namespaces can be made here"
cat "$folder/out"
expect "no promise is broken: $code" test "$code" = 0
finish
