#!/usr/bin/env bash
# Downloads the headers of NVIDIA's front end of cuDNN (MIT), checks them, and puts them where CMake finds them.
set -euo pipefail

readonly version=1.32.0
readonly wheel=nvidia_cudnn_frontend-$version-cp312-cp312-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl
readonly url=${LOCKSTEP_CUDNN_FRONTEND_URL:-https://files.pythonhosted.org/packages/c6/1d/d30c756cfbb9bef18d99face13fd1af5629f56e2a477a6648d95c6c45141/$wheel}
readonly sha256=${LOCKSTEP_CUDNN_FRONTEND_SHA256:-8b354a8e550c083eb247f1eb39a7d69a4a269075f5a01e4fcbd2531680b17239}

usage() {
  cat <<END
usage: scripts/get_cudnn_frontend.sh [DIR]

Puts the headers of cudnn_frontend $version, 3 MB out of a Python wheel of 11 MiB, into DIR/include. DIR is
\${XDG_CACHE_HOME:-~/.cache}/lockstep/cudnn_frontend-$version where none is named: CMake looks there. Any other is to be
named to CMake with -DCUDNN_FRONTEND_ROOT=DIR. Does nothing where they are.

environment:
  LOCKSTEP_CUDNN_FRONTEND_URL     another place of the wheel: a mirror, or file:///PATH
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

mkdir -p "$dir" || die "cannot write to $dir: name another folder"
work=$(mktemp -d "$dir/.unpack-XXXXXX") || die "cannot write to $dir: name another folder"
trap 'rm -rf "$work"' EXIT
if command -v curl >/dev/null; then
  curl --fail --location --silent --show-error --connect-timeout 60 --speed-limit 1 --speed-time 60 \
    --output "$work/wheel" "$url" && code=0 || code=$?
else
  python3 -c 'import sys, urllib.request; urllib.request.urlretrieve(sys.argv[1], sys.argv[2])' "$url" "$work/wheel" &&
    code=0 || code=$?
fi
[[ $code == 0 ]] ||
  die "cannot download $url (see above): check the network, or set LOCKSTEP_CUDNN_FRONTEND_URL to a mirror"
sum=$(sha256sum "$work/wheel" | cut -d' ' -f1)
[[ $sum == "$sha256" ]] || die "wrong checksum: $url has sha256 $sum where $sha256 is wanted"
(cd "$work" && cmake -E tar xf wheel) || die "cannot unpack $url: is the disk full?"
[[ -f $work/include/cudnn_frontend.h ]] || die "$url holds no include/cudnn_frontend.h"
# The folder appears as a whole, or not at all; another run may have been first.
mv -T "$work/include" "$dir/include" 2>/dev/null || [[ -f $dir/include/cudnn_frontend.h ]] ||
  die "cannot write to $dir: name another folder"
echo "get_cudnn_frontend.sh: cudnn_frontend $version is in $dir"
