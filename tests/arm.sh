#!/usr/bin/env bash
# Builds for 64-bit ARM on an x86-64 machine, runs tests in qemu, and compares weights with those of this machine. Run this by
# hand; it takes 1 GB and the time of a build.
set -euo pipefail

usage() {
  cat <<'HELP'
usage: tests/arm.sh FOLDER [BUILD]

Makes FOLDER/system, a Debian 12 for arm64 that is only unpacked, and builds in FOLDER/build with cmake/aarch64.cmake.
Runs the unit tests of kernels in qemu. Then it trains a few steps of each model in qemu and with BUILD/train_cifar (default:
build), and compares the hashes of the weights. Prints the time of each part. The exit code is 77 without root, debootstrap,
g++-aarch64-linux-gnu or qemu-user-static. Only one rank runs in qemu, because its /proc hides when a process began.
HELP
}
case ${1:-} in -h | --help) usage; exit 0 ;; '') usage >&2; exit 2 ;; esac
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=SCRIPTDIR/timed_step.sh
. "$root/tests/timed_step.sh"
folder=$(realpath -m "$1")
host=$(realpath -m "${2:-$root/build}")
system=$folder/system build=$folder/build qemu=(qemu-aarch64-static -L "$folder/system")
for tool in debootstrap aarch64-linux-gnu-g++ qemu-aarch64-static; do
  if [[ $(id -u) != 0 ]] || ! command -v $tool >/dev/null; then
    echo "skipped: this needs root and $tool"
    exit 77
  fi
done
tests=(bits portable_kernels depthwise exponential random rounding weights_hash crc32c sha256)
models=(tutorial:20 resnet20:3 resnet_small:3 mobilenet_v3_large:2)  # with their steps

# No script of a package runs, so nothing is configured.
unpack() {
  local packages
  packages=$("$root/scripts/install_dependencies.sh" --list |
    grep -vxE 'build-essential|cmake|ninja-build|git|pkg-config|protobuf-compiler|libdnnl-dev|libheif-plugin-.*' | paste -sd,)
  debootstrap --arch=arm64 --foreign --variant=minbase --include="$packages,g++,libgtest-dev,libgmock-dev" bookworm "$system"
  for package in "$system"/var/cache/apt/archives/*.deb; do dpkg-deb -x "$package" "$system"; done
}
# hash_of MODEL STEPS COMMAND...: the hash of the weights after the last step.
hash_of() {
  local model=$1 steps=$2
  shift 2
  rm -rf "$folder/run"
  env OMPI_MCA_ess_singleton_isolated=1 OMPI_MCA_btl=self,vader OMPI_MCA_pml=ob1 "$@" --arithmetic portable --dataset synthetic \
    --eval-every 0 --checkpoint-every 1000 --global-batch 24 --shards 6 --seed 1 --threads 1 --model "$model" --steps "$steps" \
    --run "$folder/run" 2>&1 | grep -oE 'sha256 [0-9a-f]+' | tail -n 1
}

mkdir -p "$folder"
[[ -e $system/usr/lib/aarch64-linux-gnu/libmpi.so.40 ]] || step system unpack
step configure cmake -S "$root" -B "$build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$root/cmake/aarch64.cmake" \
  -DCMAKE_SYSROOT="$system" -DLOCKSTEP_CUDA=OFF -DLOCKSTEP_BENCH=OFF
step build cmake --build "$build" --target train_cifar "${tests[@]}"
for name in "${tests[@]}"; do step "$name" env OMP_WAIT_POLICY=passive "${qemu[@]}" "$build/tests/$name"; done
failures=0
for entry in "${models[@]}"; do
  model=${entry%:*} steps=${entry#*:}
  arm=$(hash_of "$model" "$steps" "${qemu[@]}" "$build/train_cifar") || true
  here=$(hash_of "$model" "$steps" "$host/train_cifar") || true
  if [[ -n $arm && $arm == "$here" ]]; then
    echo "$model, $steps steps: $arm on both"
  else
    echo "$model, $steps steps: '$arm' on ARM, '$here' here"
    failures=$((failures + 1))
  fi
done
exit $((failures > 0))
