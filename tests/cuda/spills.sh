#!/usr/bin/env bash
# The build warns about a kernel that spills registers; with LOCKSTEP_STRICT it fails. This test compiles such a kernel like
# net/loss.cc, except with a limit on registers.
# usage: spills.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/../apps/lib.sh
. "$(dirname "$0")/../apps/lib.sh"

command=$(grep -E '"command": .*-c [^ ]*/net/loss\.cc ' "$build/compile_commands.json" | sed -E 's/^ *"command": "(.*)",?$/\1/; s/\\"/"/g')
[[ -n $command ]] || { echo "no command for net/loss.cc in $build/compile_commands.json"; exit 1; }
cat >"$folder/kernel.cu" <<'END'
__global__ void many_values(float* p, int n) {
  float a[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) a[i] = p[i * n];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 64; ++i) p[i] = a[63 - i] * a[i] + a[i * 7 % 64];
}
END
compile() {  # OPTIONS...: the build's command for the kernel
  (cd "$build" && eval "$(sed -E "s#-c [^ ]*/net/loss\.cc -o [^ ]+#$* -c $folder/kernel.cu -o $folder/kernel.o#; s#-MF [^ ]+#-MF $folder/kernel.d#" <<<"$command")") >"$folder/out" 2>&1
}
expect "a kernel with room compiles" compile
expect "without a warning" bash -c "! grep -q spilled '$folder/out'"
if compile -maxrregcount=24; then spilled=warning; else spilled=error; fi
expect "a spill is reported" grep -q "ptxas $spilled *: Registers are spilled" "$folder/out"
wanted=warning
! grep -q '^LOCKSTEP_STRICT:BOOL=ON' "$build/CMakeCache.txt" || wanted=error
expect "it is an $wanted here" test "$spilled" = "$wanted"
finish
