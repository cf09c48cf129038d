#!/usr/bin/env bash
# Other programs that use the library: a mistake is one line on all ranks, and a program may initialise MPI itself.
# usage: own_program.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
limit=30  # seconds: --timeout is 60, so that no hang ends by itself

no_place() {
  expect "no path of the machine that built it ($1)" bash -c "! grep -qE '/[a-z_]+\.(cc|h):' '$folder/raw'"
  expect "no internal error ($1)" bash -c "! grep -q 'internal error' '$folder/raw'"
}
refused() {  # CASE WORDS: on 3 ranks
  ranks 3 tests/library_user "$1"
  expect_error "$1" 2 "^library_user: $2"
  no_place "$1"
}
refused count 'rank.1 count.=.200 count.=.100 rank.0'
refused large_count 'count.=.2000000 count.=.100 rank.0'
refused bucket 'begin.0,.count.40 begin.0,.count.50 rank.0'
refused number_of_buckets 'rank.1 buckets.=.1 buckets.=.2 rank.0'
refused reducer 'rank.1 reducer.=.ring reducer.=.tree rank.0'
refused overlap 'bucket.0 80 bucket.1 50'
refused negative_bucket 'bucket.0 begin.-1 count.10'
refused long_bucket 'bucket.0 begin.50 count.51 100'
refused negative_count 'count -1'

run env LOCKSTEP_HEARTBEAT=no mpirun -np 2 "$build/tests/library_user" right
expect_error "a value of LOCKSTEP_HEARTBEAT" 2 '^library_user: LOCKSTEP_HEARTBEAT is "no"\. '
ranks 3 tests/library_user right
expect "it sums" test "$code:$(cat "$folder/out")" = "0:sum 3"
ranks 2 tests/library_user mpi
expect_error "an error of MPI" 1 'library_user.cc:[0-9]+ MPI_ERR_RANK'
no_place mpi
ranks 3 tests/library_user agreed
expect_error "an error of all ranks" 3 '^library_user: all.of.us$'
expect "no output is lost" test "$(wc -c <"$folder/out")" = $((3 * 4 << 20))
ranks 4 tests/library_user part
expect_error "an agreement of some ranks" 1 'rank.[23] only.in.this.half'

for name in own_mpi own_mpi_single; do
  for count in 1 3; do
    ranks $count tests/library_user $name
    expect "$name on $count" test "$code:$(cat "$folder/out")" = "0:codes 0, sums $((2 * count)), ranks $count, threads as granted, errors as before"
    expect "$name prints no error" test ! -s "$folder/err"
  done
done
ranks 3 tests/library_user own_mpi_agreed
expect "all fail and MPI goes on" test "$code:$(cut -d, -f1 "$folder/out")" = "6:codes 6"
expect "two lines of rank 0" test "$(grep -c '^library_user: all of us$' "$folder/err"):$(wc -l <"$folder/err")" = 2:2
ranks 3 tests/library_user own_mpi_lone
expect_error "one fails" 1 '^library_user: rank.1 only.here$'
ranks 1 tests/library_user after_finalize
expect_error "MPI is over" 2 '^library_user: MPI_Finalize'
finish
