#!/usr/bin/env bash
# A build with the CUDA back end on a machine without a GPU: it starts without a driver, computes on the CPU with a note,
# and refuses --device cuda with the reason, once for all ranks.
# usage: no_device.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/../apps/lib.sh
. "$(dirname "$0")/../apps/lib.sh"
reason='no CUDA device \(.+\)'

for program in train_cifar evaluate; do
  expect "$program does not wait for cuBLASLt's constructors" bash -c "! ldd '$build/$program' | grep cublas"
  expect "$program needs no library of the driver" bash -c "! ldd '$build/$program' | grep -E 'libcuda\.so|not found'"
done
run env CUDA_VISIBLE_DEVICES= "$build/train_cifar" "${small[@]}" --device auto --check
expect "auto takes the CPU" test $code = 0
expect "in one note" test "$(grep -cE "^note +no CUDA device, using cpu\$" "$folder/out")" = 1
for count in 1 2; do
  CUDA_VISIBLE_DEVICES='' ranks $count train_cifar "${small[@]}" --device cuda --steps 2
  expect "--device cuda fails on $count ranks" test $code != 0
  expect "in one line" test "$(wc -l <"$folder/err")" = 1
  expect "with the reason" grep -qE "^train_cifar: --device cuda: $reason on [^ ]+\\. .*--device" "$folder/err"
done
CUDA_VISIBLE_DEVICES='' ranks 2 train_cifar "${small[@]}" --steps 1 --run "$folder/c"
CUDA_VISIBLE_DEVICES='' ranks 2 evaluate --threads 1 --no-confusion "$folder/c"
expect "evaluate takes the CPU" test $code = 0
expect "in one note" test "$(grep -cE "^evaluate: note: no CUDA device, using cpu\$" "$folder/raw")" = 1
CUDA_VISIBLE_DEVICES='' ranks 2 evaluate --device cuda "$folder/c"
expect_error "evaluate --device cuda" 1 '^evaluate: --device cuda no.CUDA.device'
expect "the device is in the list" bash -c "'$build/train_cifar' --list | grep -qE '^  cuda +one GPU per rank'"
finish
