#!/usr/bin/env bash
# Downloads the headers of cuDNN's front end by NVIDIA (MIT licence), checks them, and stores them for CMake.
set -euo pipefail

readonly version=1.32.0
readonly wheel=nvidia_cudnn_frontend-$version-cp312-cp312-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl
readonly url=${LOCKSTEP_CUDNN_FRONTEND_URL:-https://files.pythonhosted.org/packages/c6/1d/d30c756cfbb9bef18d99face13fd1af5629f56e2a477a6648d95c6c45141/$wheel}
readonly sha256=${LOCKSTEP_CUDNN_FRONTEND_SHA256:-8b354a8e550c083eb247f1eb39a7d69a4a269075f5a01e4fcbd2531680b17239}

usage() {
  cat <<END
usage: scripts/get_cudnn_frontend.sh [DIR]

Downloads the headers of cudnn_frontend $version to DIR/include: 3 MB from a Python wheel of 11 MiB.
The default of DIR is \${XDG_CACHE_HOME:-~/.cache}/lockstep/cudnn_frontend-$version, where CMake finds it.
For another DIR pass -DCUDNN_FRONTEND_ROOT=DIR to CMake. Does nothing if the headers are already there.

environment:
  LOCKSTEP_CUDNN_FRONTEND_URL     another URL of the wheel: a mirror, or file:///PATH
  LOCKSTEP_CUDNN_FRONTEND_SHA256  the checksum of another wheel
END
}

die() {
  echo "get_cudnn_frontend.sh: $*" >&2
  exit 1
}

case ${1-} in -h | --help) usage; exit 0 ;; esac
(($# <= 1)) || { usage >&2; exit 2; }
dir=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/lockstep/cudnn_frontend-$version}
[[ ! -f $dir/include/cudnn_frontend.h ]] || exit 0

mkdir -p "$dir" || die "cannot write to $dir. Name another folder."
work=$(mktemp -d "$dir/.unpack-XXXXXX") || die "cannot write to $dir. Name another folder."
trap 'rm -rf "$work"' EXIT
if command -v curl >/dev/null; then
  curl --fail --location --silent --show-error --connect-timeout 60 --speed-limit 1 --speed-time 60 \
    --output "$work/wheel" "$url" && code=0 || code=$?
else
  python3 -c 'import sys, urllib.request; urllib.request.urlretrieve(sys.argv[1], sys.argv[2])' "$url" "$work/wheel" &&
    code=0 || code=$?
fi
[[ $code == 0 ]] ||
  die "cannot download $url (see above). Check the network, or set LOCKSTEP_CUDNN_FRONTEND_URL to a mirror."
sum=$(sha256sum "$work/wheel" | cut -d' ' -f1)
[[ $sum == "$sha256" ]] || die "wrong checksum: $url has sha256 $sum instead of $sha256. Run this again, or set LOCKSTEP_CUDNN_FRONTEND_URL to a mirror."
(cd "$work" && cmake -E tar xf wheel) || die "cannot unpack $url. Check the free disk space."
[[ -f $work/include/cudnn_frontend.h ]] || die "$url does not contain include/cudnn_frontend.h. Use the wheel of cudnn_frontend $version."
# The folder appears complete or not at all. If another run was first, its folder stays.
mv -T "$work/include" "$dir/include" 2>/dev/null || [[ -f $dir/include/cudnn_frontend.h ]] ||
  die "cannot write to $dir. Name another folder."
echo "get_cudnn_frontend.sh: cudnn_frontend $version is in $dir"
