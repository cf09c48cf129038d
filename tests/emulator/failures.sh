#!/usr/bin/env bash
# A run on an emulated GPU in which one call fails: each allocation in turn, kernels, an engine of cuDNN, a sum of NCCL. The
# run ends with one error and a failure, or goes on if it can. Nothing hangs, and the emulator reports no mistake on the way
# out.
# usage: failures.sh BUILD_FOLDER   (the folder of the emulated programs)
# shellcheck source=SCRIPTDIR/../apps/lib.sh
. "$(dirname "$0")/../apps/lib.sh"
need_h5py
small_data "$folder/data"
run=(train_cifar --device cuda --threads 1 --dataset hdf5 --data "$folder/data/small" --model resnet_small --global-batch 4 --steps 4
     --deterministic --log-every 1 --eval-every 4 --summary-every 0 --timeout 20)

# fail CALL N: one rank, whose Nth call fails. Succeeds as long as there is such a call.
fail() {
  EMULATOR_FAIL="$1 $2" ranks 1 "${run[@]}"
  [[ $code != 0 ]] || return 1
  expect_error "$1 $2" 1 "train_cifar"
}
for call in cudaMalloc cudaHostAlloc; do
  n=1
  while fail $call $n; do n=$((n + 1)); done
  expect "$call fails in at least 5 places, not $n" test $n -gt 5
done
for n in 1 2 10 100 200; do
  fail kernel $n
  expect "kernel $n fails" test $code != 0
  expect "its error is named" grep -q 'illegal memory access' "$folder/err"
done

# Two GPUs with NCCL: a sum that never ends, with an error and without one.
export EMULATOR_ORDER=thread EMULATOR_DEVICES=2
for n in 1 3; do
  EMULATOR_NCCL_FAIL=$n ranks 2 "${run[@]}"
  expect "sum $n of NCCL fails" test $code != 0
  expect "NCCL is named" grep -qi nccl "$folder/err"
done
finish
