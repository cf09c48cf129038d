#!/usr/bin/env bash
# Installs the packages that the build needs: Debian 12 and newer, Ubuntu 24.04 and newer. Does nothing if none is missing.
# On another system, or without the right to install, it looks for the compilers and headers themselves. It then prints
# what is missing and what each part is for.
set -euo pipefail

usage() {
  cat <<'HELP'
usage: scripts/install_dependencies.sh [--tests] [--docs] [--check | --list] [--gpu]

Prints which packages are missing and installs them with apt-get. It uses sudo unless you are root. It does not install
CUDA, cuDNN or NCCL. If nvcc is on PATH, it downloads the headers of cuDNN's front end (get_cudnn_frontend.sh).

  --tests   also the packages for tests and benchmarks (600 MB on the disk). Without the right to install, it only names those
            that some tests need. SLURM gets no configuration, so its services do not start
  --docs    also the tools that build and check the documentation
  --check   only print what is missing; exit code 1 if something is
  --list    only print the names of all packages
  --gpu     only print what the CUDA back end needs and what is missing; exit code 1 if something is
  --help    this text
HELP
}

# One line per package: package | how it is found without dpkg (command, <header>, :Python module, /file) | purpose.
build_needs='
build-essential|c++|C++20 compiler (g++ 11 or newer)
cmake|cmake|build system, 3.22 or newer
ninja-build|ninja|build system
git|git|git, for the revision in every checkpoint
pkg-config|pkg-config|pkg-config, which finds libraries
openmpi-bin|mpirun|MPI launcher
libopenmpi-dev|mpicxx|MPI library
libhdf5-dev|<hdf5.h>|HDF5, for checkpoints
libdnnl-dev|<dnnl.hpp>|oneDNN, for convolutions and matrix products
libfmt-dev|<fmt/format.h>|fmt, for text
nlohmann-json3-dev|<nlohmann/json.hpp>|nlohmann-json, for metrics
libtomlplusplus-dev|<toml++/toml.h>|toml++, for files of layers
protobuf-compiler|protoc|Protocol Buffers compiler, for TensorBoard files
libprotobuf-dev|<google/protobuf/message.h>|Protocol Buffers library, for TensorBoard files
zlib1g-dev|<zlib.h>|zlib, for checksums and compression
libssl-dev|<openssl/evp.h>|OpenSSL, for hashes of weights
libpng-dev|<png.h>|libpng, for images
libjpeg-dev|<jpeglib.h>|libjpeg, for images
libwebp-dev|<webp/demux.h>|libwebp, for images
libtiff-dev|<tiffio.h>|libtiff, for TIFF images
libheif-dev|<libheif/heif.h>|libheif, for HEIC and AVIF images
libstb-dev|<stb/stb_image.h>|stb, for BMP and GIF images'
test_needs='
libgtest-dev|<gtest/gtest.h>|GoogleTest
libgmock-dev|<gmock/gmock.h>|GoogleMock
libbenchmark-dev|<benchmark/benchmark.h>|Google Benchmark'
# The tools of some tests, which are skipped without them.
tool_needs='
python3-h5py|:h5py|h5py, which reads checkpoints in Python
python3-pil|:PIL|Pillow, which runs the example of docs/models.md
python3-matplotlib|:matplotlib|matplotlib, for plots of runs
python3-pip|:pip|pip, for the Python package
python3-venv|:ensurepip|virtual environments, for the Python package
python3-setuptools|:setuptools|setuptools, for the Python package
python3-wheel|:wheel|wheel, for the Python package
curl|curl|curl, for downloads
wget|wget|wget, for downloads
file|file|file, for Debian packages
ca-certificates|/etc/ssl/certs/ca-certificates.crt|certificates for downloads
groff|groff|groff, which checks the man pages
iproute2|ip|ip, for tests on several hosts
libsimgrid-dev|smpirun|SimGrid, for simulated all-reduces'
# Chromium is no package of Ubuntu.
browser_needs='
chromium-headless-shell|chromium-headless-shell|Chromium, for the test of report.html'
slurm_needs='
slurmctld|slurmctld|SLURM controller
slurmd|slurmd|SLURM node daemon
slurm-client|sbatch|SLURM commands
munge|munged|SLURM authentication'
docs_needs='
mkdocs|mkdocs|mkdocs, for the documentation site
doxygen|doxygen|doxygen, for the API reference'

fail() {
  echo "install_dependencies.sh: $1" >&2
  exit "${2:-1}"
}

give_up() {  # REASON: this user may not install `missing`. The build can do without the tools of some tests.
  [[ -z $(grep -vxF "$tool_needs$browser_needs$slurm_needs" <<<"$missing") ]] || fail "$1"
  echo "install_dependencies.sh: $1 The tests that need these packages are skipped." >&2
  get_front_end_of_cudnn
  exit 0
}

# The lines of `needs` whose package is not installed, by dpkg's records.
missing_packages() {
  local installed package known purpose packages
  mapfile -t packages < <(cut -d'|' -f1 <<<"$needs" | grep .)
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${packages[@]}" 2>/dev/null || true)
  while IFS='|' read -r package known purpose; do
    [[ -z $package ]] || grep -qxF "$package installed" <<<"$installed" || echo "$package|$known|$purpose"
  done <<<"$needs"
}

# The same without dpkg: modules, Spack, Conda or pkg-config may have installed the command or header elsewhere.
missing_things() {
  local package known purpose prefix flags=() prefixes
  IFS=':;' read -ra prefixes <<<"${CMAKE_PREFIX_PATH:-}:${HDF5_ROOT:-}:${CONDA_PREFIX:-}"
  for prefix in "${prefixes[@]}"; do [[ -z $prefix ]] || flags+=("-I$prefix/include"); done
  for package in hdf5-serial hdf5 dnnl fmt protobuf libcrypto; do
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

# No Debian package contains these headers. They matter only if nvcc is on PATH. If the download fails, the build has no
# CUDA back end.
get_front_end_of_cudnn() {
  if command -v nvcc >/dev/null && [[ $check == 0 && ${LOCKSTEP_CUDA:-} != OFF ]]; then
    "$(dirname "${BASH_SOURCE[0]}")/get_cudnn_frontend.sh" || echo "install_dependencies.sh: the build will have no CUDA back end." >&2
  fi
}

describe() {  # prints "package purpose" for each line of needs on stdin
  while IFS='|' read -r package known purpose; do printf '  %-20s %s\n' "$package" "$purpose"; done
}

# The packages of Debian 11 and Ubuntu 22.04 are older than the tested ones, so a build would fail late.
refuse_too_old() {
  local ID='' VERSION_ID='' PRETTY_NAME='this system'
  # shellcheck disable=SC1091
  [[ ! -r /etc/os-release ]] || . /etc/os-release
  case $ID in
    debian) [[ -z $VERSION_ID || ${VERSION_ID%%.*} -ge 12 ]] ;;
    ubuntu) [[ -z $VERSION_ID || ${VERSION_ID%%.*} -ge 24 ]] ;;
  esac || fail "the packages of $PRETTY_NAME are too old. Use Debian 12, Ubuntu 24.04 or newer, or a container with one of them."
}

install_packages() {
  local as_root=() apt
  if [[ $(id -u) != 0 ]]; then
    as_root=(sudo)
    echo "install_dependencies.sh: sudo may ask for your password." >&2
    sudo true || give_up "sudo was refused. Ask an administrator to run: apt-get install $*"
  fi
  apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300)
  # The package lists are refreshed only if this download fails: they may be missing or older than the mirror.
  if ! "${apt[@]}" install -y --no-install-recommends --download-only "$@" >/dev/null 2>&1; then
    "${apt[@]}" update >&2 || fail "apt-get update failed (see above). Check the network and /etc/apt/sources.list, then run this again."
  fi
  "${apt[@]}" install -y --no-install-recommends "$@" >"$log" 2>&1 || {
    grep -E '^(E|W|Err):' "$log" | head -5 >&2
    fail "apt-get install failed (see above; full log: $log). Check network and disk space, on Ubuntu enable 'universe' (sudo add-apt-repository universe), then run this again."
  }
  rm -f "$log"
}

# This script does not install CUDA, because its version depends on the driver and clusters provide it as a module.
print_gpu_needs() {
  local missing='' toolkit nvcc includes=() folder
  nvcc=$(command -v "${CUDACXX:-nvcc}" || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)
  cat <<'NEEDS'
The CUDA back end needs the CUDA toolkit, cuDNN 9 and NCCL 2.19 or newer. Toolkit 12.8 or newer compiles for A100, H100,
H200 and B200; older ones from 12.0 on compile for the GPUs that they know.
  Debian, Ubuntu: cuda-toolkit-13-0, libcudnn9-dev-cuda-13 and libnccl-dev of https://developer.nvidia.com/cuda-downloads
  elsewhere: the toolkit, and the Python packages nvidia-cudnn-cu13 and nvidia-nccl-cu13
  to run: a driver for this version of CUDA (nvidia-smi prints the newest that it supports)
NEEDS
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
  [[ -e /proc/driver/nvidia/version ]] || missing+=", a driver (only to run)"
  [[ -n $missing ]] || { echo "nothing is missing"; return 0; }
  echo "missing: ${missing#, }"
  return 1
}

# The decoders of libheif are packages of their own from Debian 13 and Ubuntu 24.04 on. Debian 12 has them in the library.
add_decoders() {
  local ID='' VERSION_ID=''
  # shellcheck disable=SC1091
  [[ ! -r /etc/os-release ]] || . /etc/os-release
  [[ $ID-$VERSION_ID == debian-12 ]] || ! command -v dpkg-query >/dev/null ||
    needs+='
libheif-plugin-libde265||decoder of HEIC images for libheif
libheif-plugin-dav1d||decoder of AVIF images for libheif'
}

# The packages for tests that this machine gets.
needs_of_tests() {
  echo "$test_needs$tool_needs"
  # shellcheck disable=SC1091
  [[ $(. /etc/os-release 2>/dev/null && echo "${ID:-}") == ubuntu ]] || echo "$browser_needs"
  # A node of a cluster keeps its own SLURM: the services of the packages would start there.
  [[ -e /etc/slurm/slurm.conf ]] || echo "$slurm_needs"
}

needs=$build_needs check=0 list=0
[[ $HOSTTYPE == x86_64 ]] || needs=$(grep -v '^libdnnl-dev|' <<<"$needs")  # Lockstep uses oneDNN on x86-64 only
add_decoders
for argument in "$@"; do
  case $argument in
    --tests) needs+=$(needs_of_tests) ;;
    --docs) needs+=$docs_needs ;;
    --check) check=1 ;;
    --list) list=1 ;;
    --gpu) print_gpu_needs; exit $? ;;
    -h | --help) usage; exit 0 ;;
    *) fail "unknown option $argument. Use --tests, --docs, --check, --list, --gpu or --help." 2 ;;
  esac
done
if [[ $list == 1 ]]; then
  cut -d'|' -f1 <<<"$needs" | grep .
  exit 0
fi

if command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
  missing=$(missing_packages)
  # Users who cannot install may have built or loaded a library that dpkg has no record of.
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
    [[ -z $missing ]] || fail "packages are still missing after the installation: $(cut -d'|' -f1 <<<"$missing" | xargs). Install them by hand."
    get_front_end_of_cudnn
    exit 0
  fi
  cure="Ask an administrator to run: apt-get install $(cut -d'|' -f1 <<<"$missing" | xargs)"
else
  cure="Install them with this system's package manager, modules or Spack, and set CMAKE_PREFIX_PATH to their folders."
fi

missing=$(missing_things)
[[ -n $missing ]] || { get_front_end_of_cudnn; exit 0; }
echo "missing (names as in Debian):" >&2
describe <<<"$missing" >&2
[[ $check == 0 ]] || exit 1
give_up "this script cannot install the missing packages here. $cure"
