#!/usr/bin/env bash
# A rank that is killed while GPUs sum ends all ranks at once, named, under each reducer of GPUs that this machine can have
# between two ranks.
# usage: killed_rank.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/../apps/lib.sh
. "$(dirname "$0")/../apps/lib.sh"
run "$build/train_cifar" "${small[@]}" --device cuda --check
if grep -q 'no CUDA device' "$folder/err" && [[ ${LOCKSTEP_REQUIRE_GPU:-0} == 0 ]]; then
  skip "$(grep -o 'no CUDA device ([^)]*)' "$folder/err")"
fi
expect "one rank sets up" test $code = 0

for reducer in auto shared; do
  limit=120
  start 2 --device cuda --reducer $reducer --steps 1000000
  await 60 has_done 20
  pid=$(pid_of_rank 1)
  end=$((SECONDS + 30))
  kill -KILL "$pid"
  collect
  expect "$reducer: all end" test $SECONDS -le $end
  expect "$reducer: a failure" test $code -ne 0
  expect "$reducer: the rank is named" lines_with "$folder/err" "^train_cifar: rank.1 pid.$pid died step.[0-9]+"
done
finish
