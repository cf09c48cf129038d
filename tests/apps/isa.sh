#!/usr/bin/env bash
# --isa, --arithmetic and --conv: one program computes with the instruction set of the option. The summary names it, a resume compares it,
# one that the processor lacks is refused, and shared code needs no wider one.
# usage: isa.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
has_onednn || skip "this build has no oneDNN"
has() { grep -qw "$1" /proc/cpuinfo; }

fast=(--arithmetic fast)
train 2 --steps 2 "${fast[@]}" --run "$folder/auto"
if has avx2; then
  train 2 --steps 2 "${fast[@]}" --isa avx2 --run "$folder/avx2"
  expect_line "the start names it" '^ranks AVX2 --isa'
  if ! has avx512f; then
    expect_same_state "the widest is avx2" "$(step_file "$folder/auto" 2)" "$(step_file "$folder/avx2" 2)"
  else
    train 1 --check --steps 3 --shards 2 "${fast[@]}" --resume "$(step_file "$folder/avx2" 2)"
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

train 2 --steps 3 --run "$folder/portable"
train 1 --check --steps 4 --shards 2 "${fast[@]}" --resume "$(step_file "$folder/portable" 3)"
expect_line "a resume with another arithmetic notes it" '^note portable oneDNN'
train 1 --check --steps 4 --shards 2 --threads 3 --isa baseline --device cpu --resume "$(step_file "$folder/portable" 3)"
expect "no note on threads and instruction sets" bash -c "! grep -q '^note' '$folder/out'"
if has avx512f; then  # whose check comes before the run's own device
  cp "$here/../../apps/networks/tutorial.toml" "$folder/own.toml"
  train 1 --check --model "$folder/own.toml" --isa avx2
fi
run env OMP_STACKSIZE=128k "$build/train_cifar" "${small[@]}" --no-run --steps 1 --threads 2 --device cpu
expect_error "a small stack" 2 '^train_cifar: stack KiB too.small OMP_STACKSIZE'
ranks 1 train_cifar "${small[@]}" --arithmetic exact
expect_error "an unknown arithmetic" 2 "^train_cifar: exact"
small_data "$folder/data"
train 1 --model tutorial --dataset hdf5 --data "$folder/data/small" --steps 1 --run "$folder/tested"
ranks 1 evaluate --threads 1 --isa baseline --data "$folder/data/small" "$folder/tested"
expect "evaluate takes it too" test "$code" = 0

here_on=(--device cpu --steps 1 "${fast[@]}")
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

# An update that g++ does not vectorise takes three times as long, and no other test notices.
if command -v objdump >/dev/null && grep -q '^CMAKE_BUILD_TYPE:.*=Release' "$build/CMakeCache.txt"; then
  objdump -dC --no-show-raw-insn "$build/train_cifar" |
    awk '/^[0-9a-f]+ </ {
        wanted = /each_(on_host|row)<lockstep::(Update|SumSquares)</
        name = $0
        sub(/^.*each_(on_host|row)</, "", name)
        sub(/\(lockstep::Stream.*/, "", name)
        if (wanted) packed[name] += 0
      }
      wanted && /v(add|mul|sub)ps .*%[yz]mm/ { packed[name] = 1 }
      END { for (name in packed) print packed[name], name }' >"$folder/updates"
  expect "updates are vectorised: $(grep '^0' "$folder/updates" | head -n 3)" test "$(grep -c '^1' "$folder/updates")" -ge 15
  expect "all of them" bash -c "! grep '^0' '$folder/updates'"
fi

if has avx512_bf16; then
  placed=(--check --model resnet_small --precision bf16 --verbose)
  train 1 "${placed[@]}" --isa avx512_bf16
  expect_line "bf16 is multiplied as bf16" 'Winograd F\(4x4,3x3\) products bf16$'
  train 1 "${placed[@]}" --isa avx512
  expect_line "or as fp32" 'Winograd F\(4x4,3x3\)$'
fi
finish
