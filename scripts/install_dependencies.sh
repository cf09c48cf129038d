#!/usr/bin/env bash
# Installs what Lockstep is built from: Debian 12 and newer, Ubuntu 24.04 and newer. Does nothing where all is there.
# On another system, or without the right to install, it looks for the compilers and headers themselves and names
# what is missing by its purpose.
set -euo pipefail

usage() {
  cat <<'HELP'
usage: scripts/install_dependencies.sh [--tests] [--slurm] [--check] [--gpu]

Finds out which packages are missing, says which, and installs them with apt-get (through sudo, if not root). CUDA,
cuDNN and NCCL are left to whoever runs the machine; where nvcc is in PATH, the headers of cuDNN's front end are fetched
(get_cudnn_frontend.sh).

  --tests   also what the tests and the benchmarks need
  --gpu     only say what the CUDA back end needs besides, and what is missing of it here; exit code 1 if something is
  --slurm   also SLURM, for the tests on a private one-machine cluster (its services are not needed)
  --check   only say what is missing; exit code 1 if something is
  --help    this text
HELP
}

# What is needed: package | how it is recognised without dpkg (command, <header>, :Python module, /file) | purpose.
build_needs='
build-essential|c++|C++20 compiler (g++ 11 or newer)
cmake|cmake|build system, 3.22 or newer
ninja-build|ninja|build system
git|git|name of the build, kept in every checkpoint
pkg-config|pkg-config|finding libraries
openmpi-bin|mpirun|MPI launcher
libopenmpi-dev|mpicxx|MPI library
libhdf5-dev|<hdf5.h>|HDF5, for checkpoints
libdnnl-dev|<dnnl.hpp>|oneDNN, for convolutions and matrix products
libfmt-dev|<fmt/format.h>|fmt, for text
libcli11-dev|<CLI/CLI.hpp>|CLI11, for options
nlohmann-json3-dev|<nlohmann/json.hpp>|nlohmann-json, for metrics
protobuf-compiler|protoc|Protocol Buffers compiler, for TensorBoard files
libprotobuf-dev|<google/protobuf/message.h>|Protocol Buffers library, for TensorBoard files
zlib1g-dev|<zlib.h>|zlib, for checksums and compression
libpng-dev|<png.h>|libpng, for images
libjpeg-dev|<jpeglib.h>|libjpeg, for images'
test_needs='
libgtest-dev|<gtest/gtest.h>|GoogleTest
libgmock-dev|<gmock/gmock.h>|GoogleMock
libbenchmark-dev|<benchmark/benchmark.h>|Google Benchmark
python3-h5py|:h5py|h5py, the other reader of checkpoints
python3-matplotlib|:matplotlib|matplotlib, for pictures of runs
curl|curl|downloads
ca-certificates|/etc/ssl/certs/ca-certificates.crt|certificates for downloads'
docs_needs='
mkdocs|mkdocs|mkdocs, for the site of the documentation
doxygen|doxygen|doxygen, for the API reference
groff|groff|groff, which checks the man pages'
slurm_needs='
slurmctld|slurmctld|SLURM controller
slurmd|slurmd|SLURM node daemon
slurm-client|sbatch|SLURM commands
munge|munged|SLURM authentication'

fail() {
  echo "install_dependencies.sh: $1" >&2
  exit "${2:-1}"
}

# Lines of needs whose package dpkg does not have.
missing_packages() {
  local installed package known purpose packages
  mapfile -t packages < <(cut -d'|' -f1 <<<"$needs" | grep .)
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${packages[@]}" 2>/dev/null || true)
  while IFS='|' read -r package known purpose; do
    [[ -z $package ]] || grep -qxF "$package installed" <<<"$installed" || echo "$package|$known|$purpose"
  done <<<"$needs"
}

# The same by looking for the thing itself, wherever modules, Spack, Conda or pkg-config have put it.
missing_things() {
  local package known purpose prefix flags=() prefixes
  IFS=':;' read -ra prefixes <<<"${CMAKE_PREFIX_PATH:-}:${HDF5_ROOT:-}:${CONDA_PREFIX:-}"
  for prefix in "${prefixes[@]}"; do [[ -z $prefix ]] || flags+=("-I$prefix/include"); done
  for package in hdf5-serial hdf5 dnnl fmt protobuf; do
    # shellcheck disable=SC2207  # a list of words
    flags+=($(pkg-config --cflags-only-I "$package" 2>/dev/null || true))
  done
  flags+=(-I/usr/include/hdf5/serial)
  while IFS='|' read -r package known purpose; do
    case $known in
      '') ;;
      :*) python3 -c "import ${known#:}" 2>/dev/null || echo "$package|$known|$purpose" ;;
      /*) [[ -e $known ]] || echo "$package|$known|$purpose" ;;
      '<'*) c++ -std=c++20 "${flags[@]}" -E -x c++ - <<<"#include $known" >/dev/null 2>&1 ||
              echo "$package|$known|$purpose" ;;
      *) command -v "$known" >/dev/null || echo "$package|$known|$purpose" ;;
    esac
  done <<<"$needs"
}

# For the CUDA back end, where there is nvcc to build it: what no package brings. The build goes without where it fails.
get_front_end_of_cudnn() {
  if command -v nvcc >/dev/null && [[ $check == 0 && ${LOCKSTEP_CUDA:-} != OFF ]]; then
    "$(dirname "${BASH_SOURCE[0]}")/get_cudnn_frontend.sh" || echo "install_dependencies.sh: the build will be without CUDA" >&2
  fi
}

describe() {  # needs on stdin -> "package (purpose)" on lines
  while IFS='|' read -r package known purpose; do printf '  %-20s %s\n' "$package" "$purpose"; done
}

# The packages of Debian 11 and Ubuntu 22.04 are older than the tested ones. Stop before an hour is lost.
refuse_too_old() {
  local ID='' VERSION_ID='' PRETTY_NAME='this system'
  # shellcheck disable=SC1091
  [[ ! -r /etc/os-release ]] || . /etc/os-release
  case $ID in
    debian) [[ -z $VERSION_ID || ${VERSION_ID%%.*} -ge 12 ]] ;;
    ubuntu) [[ -z $VERSION_ID || ${VERSION_ID%%.*} -ge 24 ]] ;;
  esac || fail "$PRETTY_NAME is too old: its packages are older than those that are tested. Use Debian 12, Ubuntu 24.04 or newer, or a container of one."
}

install_packages() {
  local as_root=() apt
  if [[ $(id -u) != 0 ]]; then
    as_root=(sudo)
    echo "install_dependencies.sh: sudo may ask for your password." >&2
    sudo true || fail "sudo was refused: ask an administrator for: apt-get install $*"
  fi
  apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300)
  # Package lists may be missing (fresh container) or older than the mirror: refresh them only then.
  if ! "${apt[@]}" install -y --no-install-recommends --download-only "$@" >/dev/null 2>&1; then
    "${apt[@]}" update >&2 || fail "apt-get update failed (see above): check the network and /etc/apt/sources.list, then run this again."
  fi
  "${apt[@]}" install -y --no-install-recommends "$@" >"$log" 2>&1 || {
    grep -E '^(E|W|Err):' "$log" | head -5 >&2
    fail "apt-get install failed (see above; the whole log: $log): on Ubuntu enable 'universe' (sudo add-apt-repository universe), else check network and disk space, then run this again."
  }
  rm -f "$log"
}

# CUDA is not this script's to install: its version goes with the driver, and clusters have it in modules.
say_gpu() {
  local missing='' toolkit nvcc includes=() folder
  nvcc=$(command -v "${CUDACXX:-nvcc}" || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)
  echo "CUDA toolkit 12.8 or newer, for A100, H100, H200 and B200 (12.0 leaves out what it does not know), cuDNN 9, NCCL 2.19 or newer:"
  echo "  on Debian and Ubuntu the packages cuda-toolkit-13-0, libcudnn9-dev-cuda-13 and libnccl-dev of https://developer.nvidia.com/cuda-downloads,"
  echo "  or the toolkit and the Python packages nvidia-cudnn-cu13 and nvidia-nccl-cu13. To run: a driver for that CUDA (nvidia-smi names it)."
  if [[ -n $nvcc ]]; then
    toolkit=$(dirname "$(dirname "$(realpath "$nvcc")")")
    includes=("$toolkit/include" "$toolkit"/targets/*/include)
  else
    missing+=", nvcc"
  fi
  for folder in "${CUDNN_ROOT:-}" "${NCCL_ROOT:-}"; do [[ -z $folder ]] || includes+=("$folder/include"); done
  while IFS= read -r folder; do includes+=("$folder"); done < <(python3 -c 'import glob, sys
for path in sys.path: print(*glob.glob(path + "/nvidia/*/include"), sep="\n")' 2>/dev/null | grep . || true)
  includes+=(/usr/include /usr/local/include "/usr/include/$(uname -m)-linux-gnu")
  [[ -n ${CUDNN_FRONTEND_ROOT:-} || -n $(compgen -G "${XDG_CACHE_HOME:-$HOME/.cache}/lockstep/cudnn_frontend-*") ]] ||
    missing+=", the headers of cuDNN's front end (scripts/get_cudnn_frontend.sh)"
  for header in cudnn_version.h:cuDNN nccl.h:NCCL; do
    for folder in "${includes[@]}"; do [[ ! -e $folder/${header%:*} ]] || continue 2; done
    missing+=", ${header#*:}"
  done
  [[ -e /proc/driver/nvidia/version ]] || missing+=", a driver (to run; the build needs none)"
  [[ -n $missing ]] || { echo "all of it is here"; return 0; }
  echo "missing here: ${missing#, }"
  return 1
}

needs=$build_needs check=0
for argument in "$@"; do
  case $argument in
    --tests) needs+=$test_needs ;;
    --slurm) needs+=$slurm_needs ;;
    --check) check=1 ;;
    --gpu) say_gpu; exit $? ;;
    -h | --help) usage; exit 0 ;;
    *) fail "unknown option $argument: use --tests, --slurm, --check, --gpu or --help." 2 ;;
  esac
done

if command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
  missing=$(missing_packages)
  # Who cannot install may have built or loaded some of it: what is there need not be in dpkg's records.
  if [[ -n $missing && $(id -u) != 0 ]]; then missing=$(needs=$missing && missing_things); fi
  [[ -n $missing ]] || { get_front_end_of_cudnn; exit 0; }
  if [[ $check == 1 ]]; then
    echo "missing packages:"
    describe <<<"$missing"
    exit 1
  fi
  if [[ $(id -u) == 0 ]] || command -v sudo >/dev/null; then
    refuse_too_old
    echo "install_dependencies.sh: installing with apt-get:" >&2
    describe <<<"$missing" >&2
    log=$(mktemp -t lockstep-install.XXXXXX)
    mapfile -t packages < <(cut -d'|' -f1 <<<"$missing")
    install_packages "${packages[@]}"
    missing=$(missing_packages)
    [[ -z $missing ]] || fail "still missing after the installation: $(cut -d'|' -f1 <<<"$missing" | xargs). Install them by hand."
    get_front_end_of_cudnn
    exit 0
  fi
  cure="ask an administrator for: apt-get install $(cut -d'|' -f1 <<<"$missing" | xargs)"
else
  cure="install them with this system's package manager, modules or Spack, and set CMAKE_PREFIX_PATH to their places"
fi

missing=$(missing_things)
[[ -n $missing ]] || { get_front_end_of_cudnn; exit 0; }
echo "missing (names as in Debian):" >&2
describe <<<"$missing" >&2
fail "not everything is there and it cannot be installed from here: $cure."
