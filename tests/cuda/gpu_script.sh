#!/usr/bin/env bash
# tests/gpu.sh from a build that is there: a row for every test, skipped where there is no GPU, and failures told.
# usage: gpu_script.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/../apps/lib.sh
. "$(dirname "$0")/../apps/lib.sh"
root=$(cd "$here/../.." && pwd)
sees_gpu() { "$build/tests/gpu_device" --gtest_list_tests >/dev/null 2>&1; [[ $? != 77 ]]; }
! sees_gpu || skip "this machine has a GPU: run tests/gpu.sh itself"

# A cmake that builds nothing: the build is there.
mkdir "$folder/bin"
printf '#!/bin/sh\nexit 0\n' >"$folder/bin/cmake"
chmod +x "$folder/bin/cmake"
script() { PATH=$folder/bin:$PATH LOCKSTEP_BUILD=$build run "$@"; }
table=$folder/results/table.txt

script env LOCKSTEP_REQUIRE_GPU=0 bash "$root/tests/gpu.sh" "" "$folder/results"
expect "without a GPU nothing fails where none is required" test $code = 0
for name in device layers; do
  expect "$name is skipped with the reason" grep -qE "^gpu\.$name +skipped .*no CUDA device \(" "$table"
done
expect "with several ranks too" grep -qE '^gpu\.step\.2 +skipped ' "$table"
expect "the last row sums up" grep -qE '^all +passed' "$table"

script env LOCKSTEP_SECONDS=0 LOCKSTEP_REQUIRE_GPU=0 bash "$root/tests/gpu.sh" "" "$folder/results"
expect "what is cut off is said" grep -qE '^build gpu_device +cut ' "$table"

script env LOCKSTEP_SECONDS=20 bash "$root/tests/gpu.sh" "" "$folder/results"
expect "a required GPU that is not there is a failure" test $code = 1
expect "and told" grep -qE '^gpu\.device +FAILED .*LOCKSTEP_REQUIRE_GPU is set: no CUDA device' "$table"

script bash "$root/tests/gpu.sh" "$folder/nowhere" "$folder/results"
expect "a folder without env.sh is refused" grep -q "there is no env.sh in $folder/nowhere" "$folder/err"
finish
