#!/usr/bin/env bash
# Builds for a GPU as on a machine without a network and without -dev packages: a minimal Debian 13 with a compiler, cmake and
# ninja, this machine's CUDA toolkit, and the pack of scripts/pack_dependencies.sh. Run this by hand; it takes root, 3 GB and
# the time of a build.
set -euo pipefail

usage() {
  cat <<'HELP'
usage: tests/bare_machine.sh FOLDER [TARGET...]

Makes FOLDER/system with debootstrap and FOLDER/pack, if they do not exist. Copies the sources to FOLDER/system/lockstep and
configures for sm_90a. Then it builds and links TARGET... (default: what tests/gpu.sh builds first), without a network.
train_cifar trains on the CPU, and tests/gpu.sh finds no GPU. Prints the time of each step. The exit code is 77 without root, debootstrap or CUDA.
HELP
}
case ${1:-} in -h | --help) usage; exit 0 ;; '') usage >&2; exit 2 ;; esac
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=SCRIPTDIR/timed_step.sh
. "$root/tests/timed_step.sh"
folder=$(realpath -m "$1")
shift
targets=("${@:-}")
[[ -n ${targets[0]} ]] || targets=(train_cifar evaluate gpu_device gpu_layers gpu_mpi_step)
cuda=$(realpath "${CUDA_PATH:-/usr/local/cuda}")
if [[ $(id -u) != 0 ]] || ! command -v debootstrap >/dev/null || [[ ! -x $cuda/bin/nvcc ]]; then
  echo "skipped: this needs root, debootstrap and the CUDA toolkit in $cuda"
  exit 77
fi
system=$folder/system

# within COMMAND: runs a line of bash in the system, with the pack's environment, CUDA and no network.
within() {
  unshare --mount --net bash -ec '
    ip link set lo up
    mkdir -p "$0/usr/local/cuda" "$0/dev/shm"
    mount --bind "$1" "$0/usr/local/cuda"
    mount -t proc proc "$0/proc"
    mount -t tmpfs tmpfs "$0/dev/shm"
    exec chroot "$0" /usr/bin/env -i HOME=/root PATH=/usr/local/cuda/bin:/usr/sbin:/usr/bin:/sbin:/bin \
      OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 bash -c "cd /lockstep && . .deps/env.sh && $2"' \
    "$system" "$cuda" "$1"
}
copy() {
  mkdir -p "$system/lockstep/.deps"
  git -C "$root" ls-files -z --cached --others --exclude-standard | (cd "$root" && xargs -0 sh -c 'ls -d "$@" 2>/dev/null' -) |
    tar -C "$root" --no-recursion -T - -cf - | tar -C "$system/lockstep" -xf -
  cp -p "$folder/pack"/* "$system/lockstep/.deps/"
}
no_dev_packages() { within "! dpkg -l | grep -E '^ii  lib(openmpi|hdf5|dnnl|fmt|png|jpeg|webp|tiff|heif|protobuf|gtest)[^ ]*-dev'"; }
no_library_missing() { within "! ldd build-gpu/train_cifar build-gpu/tests/* 2>/dev/null | grep 'not found'"; }
trains() { within "build-gpu/train_cifar --version && mpirun -np 2 build-gpu/train_cifar --no-run --threads 1 --steps 10 --eval-every 0"; }
no_gpu() { within "LOCKSTEP_BUILD=/lockstep/build-gpu tests/gpu.sh .deps /lockstep/results 2>&1 | tee /dev/stderr | grep 'no CUDA device'"; }

mkdir -p "$folder"
[[ -e $folder/pack/pack.tar.xz ]] || step pack "$root/scripts/pack_dependencies.sh" "$folder/pack"
bytes=$(stat -c %s "$folder/pack/pack.tar.xz")
((bytes <= 60000000)) || { echo "the pack has $bytes bytes, more than 60 MB"; exit 1; }
[[ -e $system/etc/debian_version ]] ||
  step system debootstrap --variant=minbase --include=g++,make,cmake,ninja-build,git,python3-minimal trixie "$system"
step copy copy
step "no dev packages" no_dev_packages
step configure within "cmake -S . -B build-gpu -G Ninja -DCMAKE_BUILD_TYPE=Release -DLOCKSTEP_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=90a-real"
for target in "${targets[@]}"; do step "build $target" within "cmake --build build-gpu --target $target"; done
step "no library is missing" no_library_missing
step "train_cifar trains" trains
step "gpu.sh ends without a GPU" no_gpu
