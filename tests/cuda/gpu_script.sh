#!/usr/bin/env bash
# tests/gpu.sh on stand-ins of the programs, then on a build: a row for every test (skipped without a GPU), the end of each
# failed log, one archive of logs, and an end at once if the program cannot set up a GPU.
# usage: gpu_script.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/../apps/lib.sh
. "$(dirname "$0")/../apps/lib.sh"
root=$(cd "$here/../.." && pwd)
results=$folder/results table=$folder/results/table.txt archive=$folder/results/results.tar.gz

# stand_in FILE LINE...: a program of these lines.
stand_in() { printf '%s\n' '#!/bin/sh' "${@:2}" >"$1" && chmod +x "$1"; }
mkdir -p "$folder/bin" "$folder/build/tests" "$folder/driver"
# A cmake that builds nothing: the build is there.
stand_in "$folder/bin/cmake" "echo \"\$@\" >>$folder/built"
stand_in "$folder/driver/nvidia-smi" 'exit 9'
stand_in "$folder/driver/mpirun" 'shift 2' 'exec "$@"'
script() { rm -rf "$results" && PATH=$folder/bin:$PATH run "$@"; }
on_stand_ins() { LOCKSTEP_BUILD=$folder/build PATH=$folder/driver:$PATH script env "$@" bash "$root/tests/gpu.sh" "" "$results"; }

# --- on stand-ins --------------------------------------------------------------------------------------------------------
: >"$folder/build/CMakeCache.txt"
for name in "$root"/tests/gpu/*.cc; do stand_in "$folder/build/tests/gpu_$(basename "$name" .cc)" 'exit 0'; done
for name in "$root"/tests/gpu/mpi/*.cc; do stand_in "$folder/build/tests/gpu_mpi_$(basename "$name" .cc)" 'exit 0'; done
stand_in "$folder/build/train_cifar" 'seq -f "line %g" 1 25' 'echo "train_cifar: the GPU says no" >&2' 'exit 1'
on_stand_ins
expect "a GPU that cannot be set up is a failure" test $code = 1
expect "told in its row" grep -qE '^check +FAILED .*train_cifar: the GPU says no' "$table"
expect "nothing runs behind it" test "$(grep -cvE '^(machine|build train_cifar|check|all) ' "$table")" = 0
expect "nor is built" test "$(wc -l <"$folder/built")" = 1
expect_line "the end of the log is printed" '^ +line 7$'
expect "but not all of it" bash -c "! grep -qE '^ +line 6\$' '$folder/out'"
expect "the archive is there" tar -xzf "$archive" -C "$folder/build" --one-top-level=unpacked
expect_files "of logs and table" "$folder/build/unpacked" table.txt machine.txt build_train_cifar.log check.log

stand_in "$folder/build/train_cifar" 'echo "train_cifar: no CUDA device (none)" >&2' 'exit 1'
stand_in "$folder/build/tests/gpu_layers" 'echo "[  FAILED  ] 2 tests"' 'exit 1'
on_stand_ins LOCKSTEP_REQUIRE_GPU=0
expect "a failed test is a failure" test $code = 1
expect "with its row" grep -qE '^gpu\.layers +FAILED .*2 tests' "$table"
expect "no GPU where none is required is none" grep -qE '^check +skipped ' "$table"
expect "the others run" grep -qE '^gpu\.plans +passed ' "$table"
expect_files "one archive" "$results" table.txt machine.txt results.tar.gz
tar -tzf "$archive" >"$folder/names"
expect "with all logs" grep -qx 'build_gpu_layers.log' "$folder/names"
expect "of this run" test "$(wc -l <"$folder/names")" = "$(wc -l <"$table")"
expect "and plain names" bash -c "! grep -vxE '[A-Za-z0-9_.-]+' '$folder/names'"

# --- on the build --------------------------------------------------------------------------------------------------------
export LOCKSTEP_BUILD=$build
"$build/tests/gpu_device" --gtest_list_tests >/dev/null 2>&1
if [[ $? != 77 ]]; then  # this machine has a GPU: for tests/gpu.sh itself
  finish
  exit
fi

script env LOCKSTEP_REQUIRE_GPU=0 bash "$root/tests/gpu.sh" "" "$results"
expect "without a GPU nothing fails where none is required" test $code = 0
for name in device layers; do
  expect "$name is skipped with the reason" grep -qE "^gpu\.$name +skipped .*no CUDA device \(" "$table"
done
expect "with several ranks too" grep -qE '^gpu\.step\.2 +skipped ' "$table"
expect "the last row sums up" grep -qE '^all +passed' "$table"

script env LOCKSTEP_SECONDS=0 LOCKSTEP_REQUIRE_GPU=0 bash "$root/tests/gpu.sh" "" "$results"
expect "what is cut off is said" grep -qE '^build train_cifar +cut ' "$table"

script env LOCKSTEP_SECONDS=20 bash "$root/tests/gpu.sh" "" "$results"
expect "a required GPU that is not there is a failure" test $code = 1
expect "and told" grep -qE '^check +FAILED .*no CUDA device' "$table"

script bash "$root/tests/gpu.sh" "$folder/nowhere" "$results"
expect "a folder without env.sh is refused" grep -q "there is no env.sh in $folder/nowhere" "$folder/err"
finish
