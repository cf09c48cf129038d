#!/usr/bin/env bash
# A /dev/shm that is too small, or that another run fills first: one line with the sizes, no SIGBUS. Needs root.
# usage: shared_memory.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
unshare -m mount -t tmpfs -o size=1m lockstep-test /dev/shm 2>/dev/null || skip "no /dev/shm of its own can be mounted here (root)"

in_shm() {  # SIZE RANKS PROGRAM OPTIONS...: MPI itself needs none of it
  # shellcheck disable=SC2016
  run env OMPI_MCA_btl=tcp,self unshare -m bash -c '
    mount -t tmpfs -o "size=$1" lockstep-test /dev/shm
    mpirun -np "${@:2}"
    code=$?
    ls /dev/shm
    exit $code' - "$1" "$2" "$build/$3" "${@:4}"
}
in_shm 2m 2 train_cifar "${small[@]}" --steps 1 --reducer shared
expect_error "too small" 1 '^train_cifar: reducer shared [0-9.]+ /dev/shm [12]\.[0-9]'
expect "nothing is left there" test ! -s "$folder/out"
in_shm 16m 2 train_cifar "${small[@]}" --steps 1 --reducer shared
expect "large enough" test "$code" = 0
in_shm 0 2 train_cifar "${small[@]}" --steps 1 --reducer shared
expect "without a limit" test "$code" = 0
for count in 2 3; do
  in_shm 8m $count tests/full_shm
  expect_error "$count ranks, filled meanwhile" 1 '^full_shm: reducer shared [0-9.]+ /dev/shm 0\.0'
  expect_line "only the other's file is left" '^of-another-run$'
  expect "and nothing else" test "$(wc -l <"$folder/out")" = 1
done
finish
