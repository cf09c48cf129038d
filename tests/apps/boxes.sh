#!/usr/bin/env bash
# After a program's one line about an error, Open MPI 4's mpirun adds no boxes of its own, whether all ranks fail or one.
# usage: boxes.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
mpirun --version 2>/dev/null | grep -q 'Open MPI) 4' || skip "mpirun is not that of Open MPI 4"
unset OMPI_MCA_orte_execute_quiet PRTE_MCA_prte_execute_quiet

# The lines that mpirun and the program printed. A build with CUDA prints a note on a machine without a GPU, and
# mpirun's libevent sometimes warns of a socket that a rank has just closed.
lines() { tr -d '\0' <"$folder/raw" | grep . | grep -vE 'note: no CUDA device|^\[warn\] Epoll'; }

# WHAT CODE PATTERN: the last run ended with that exit code, and mpirun and the program together printed one line.
expect_only_line() {
  expect "$1: the exit code" test "$code" = "$2"
  expect "$1: no boxes" test "$(lines | wc -l)" = 1
  expect "$1: the line" grep -qE -- "$3" "$folder/raw"
}
for count in 1 2 3; do
  run mpirun -np $count "$build/train_cifar" "${small[@]}" --no-such-option
  expect_only_line "a wrong option on $count ranks" 2 '^train_cifar: .*--no-such-option'
done
run mpirun -np 2 "$build/train_cifar" "${small[@]}" --data "$folder/nowhere"
expect_only_line "no data" 65 "^train_cifar: .*$folder/nowhere"
run mpirun -np 2 "$build/evaluate" "$folder/nowhere.h5"
expect_only_line "no checkpoint" 1 "^evaluate: .*nowhere.h5"
run mpirun -np 3 "$build/tests/lone_failure" 1 step "${small[@]}" --global-batch 12
expect_only_line "one rank of three fails" 3 '^lone_failure: rank 1 .*broken at step'
run mpirun -np 2 "$build/train_cifar" "${small[@]}" --steps 2
expect "a run that ends well" test "$code" = 0
expect "without output" test -z "$(lines)"
finish
