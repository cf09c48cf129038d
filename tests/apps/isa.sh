#!/usr/bin/env bash
# --isa and --conv: one program computes with the instruction set of the option. The summary names it, a resume compares it,
# one that the processor lacks is refused, and shared code needs no wider one.
# usage: isa.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
has() { grep -qw "$1" /proc/cpuinfo; }

train 2 --steps 2 --run "$folder/auto"
if has avx2; then
  train 2 --steps 2 --isa avx2 --run "$folder/avx2"
  expect_line "the start names it" '^ranks AVX2 --isa'
  if ! has avx512f; then
    expect_same_state "the widest is avx2" "$(step_file "$folder/auto" 2)" "$(step_file "$folder/avx2" 2)"
  else
    train 1 --check --steps 3 --shards 2 --resume "$(step_file "$folder/avx2" 2)"
    expect_line "a resume notes another" '^note oneDNN AVX-512 AVX2'
  fi
fi
train 2 --steps 1 --isa baseline
for name in avx512:avx512f avx512_bf16:avx512_bf16 amx:amx_bf16; do
  has "${name#*:}" && continue
  ranks 2 train_cifar "${small[@]}" --steps 1 --isa "${name%:*}"
  expect_error "--isa ${name%:*}" 2 "^train_cifar: --isa.${name%:*} host"
done
ranks 1 train_cifar "${small[@]}" --isa avx3
expect_error "an unknown set" 2 "^train_cifar: avx3"
small_data "$folder/data"
train 1 --model tutorial --dataset hdf5 --data "$folder/data/small" --steps 1 --run "$folder/tested"
ranks 1 evaluate --threads 1 --isa baseline --data "$folder/data/small" "$folder/tested"
expect "evaluate takes it too" test "$code" = 0

here_on=(--device cpu --steps 1)
two_commands "$build/train_cifar" "${small[@]}" "${here_on[@]}" // env ONEDNN_MAX_CPU_ISA=SSE41 "$build/train_cifar" "${small[@]}" "${here_on[@]}"
expect "ranks that differ train" test "$code" = 0
expect_line "they are named" '^warning ranks oneDNN SSE'
expect_line "the summary promises no bits" '^order canonical ranks'

# What the linker may keep of an inline function's copies must run everywhere: no registers of 512 bits outside of the
# kernels that are chosen at start.
if command -v objdump >/dev/null && ! grep -q '^LOCKSTEP_MARCH:.*=\(native\|.*v4\)' "$build/CMakeCache.txt"; then
  objdump -dC --no-show-raw-insn "$build/train_cifar" |
    awk '/^[0-9a-f]+ </ { name = $0 } /%zmm|%[xy]mm(1[6-9]|2[0-9]|3[01])|%k[1-7]/ && name != seen { seen = name; print name }' >"$folder/wide"
  for set in avx512 avx512_bf16; do
    expect "kernels for $set are there" grep -q "lockstep::$set::" "$folder/wide"
  done
  grep -v 'lockstep::avx512\(_bf16\)\?::\|(anonymous namespace)::\|_GLOBAL__N_' "$folder/wide" >"$folder/shared"
  expect "no shared function needs AVX-512: $(head -n 3 "$folder/shared")" test ! -s "$folder/shared"
fi

# --- options that do nothing ------------------------------------------------------------------------------------------
train 1 --check --model resnet_small --conv matrix_units
expect_line "a convolution that fits no layer" '^note --conv matrix_units resnet_small fp32'
train 1 --check --model resnet_small --conv winograd4
expect "a convolution that fits some" bash -c "! grep -q 'does nothing' '$folder/out'"

if has avx512_bf16; then
  placed=(--check --model resnet_small --precision bf16 --verbose)
  train 1 "${placed[@]}" --isa avx512_bf16
  expect_line "bf16 is multiplied as bf16" 'Winograd F\(4x4,3x3\) products bf16$'
  train 1 "${placed[@]}" --isa avx512
  expect_line "or as fp32" 'Winograd F\(4x4,3x3\)$'
fi
finish
