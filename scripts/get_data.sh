#!/usr/bin/env bash
# Downloads a data set, checks it and unpacks it to where --data finds it. See --help.
set -euo pipefail

readonly known="cifar10"
readonly cifar10_url=https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz
readonly cifar10_sha256=c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd

usage() {
  cat <<END
usage: scripts/get_data.sh DATASET [DIR]

Downloads DATASET into DIR (default: data/DATASET beside the sources) for train_cifar --data DIR.
A download that broke off goes on where it stopped; what is there and whole is not fetched again.

data sets:
  cifar10    CIFAR-10, binary version: 162 MiB to download, 176 MiB unpacked

environment:
  LOCKSTEP_CIFAR10_URL       another place of the archive, a mirror for instance
  LOCKSTEP_CIFAR10_SHA256    the checksum of another archive
END
}

say() { echo "get_data.sh: $*" >&2; }
die() { say "$@"; exit 1; }

bytes_of() { if [[ -f $1 ]]; then stat --format=%s "$1"; else echo 0; fi; }
checksum_of() { sha256sum "$1" | cut --delimiter=' ' --fields=1; }

# fetch URL FILE: adds to FILE what is still missing of it. A server that falls silent is given up after a minute.
fetch() {
  if command -v curl >/dev/null; then
    curl --fail --location --continue-at - --connect-timeout 60 --speed-limit 1 --speed-time 60 --progress-bar \
      --output "$2" "$1"
  elif command -v wget >/dev/null; then
    wget --no-verbose --show-progress --continue --tries=1 --timeout=60 --output-document="$2" "$1"
  else
    die "needs curl or wget: sudo apt-get install curl"
  fi
}

# download URL FILE: fetches for as long as each attempt brings more bytes.
download() {
  local url=$1 file=$2 before
  while true; do
    before=$(bytes_of "$file")
    fetch "$url" "$file" && return
    if (($(bytes_of "$file") == 0)); then
      rm -f "$file"
      die "cannot download $url (see above): check the network and the space on the disk and run this again," \
        "or set LOCKSTEP_CIFAR10_URL to a mirror"
    fi
    (($(bytes_of "$file") > before)) ||
      die "cannot go on downloading $url (see above): check the network and the space on the disk and run this again," \
        "delete $file to begin anew, or set LOCKSTEP_CIFAR10_URL to a mirror"
    say "the connection broke after $(bytes_of "$file") bytes; going on from there"
    sleep 1
  done
}

get_cifar10() {
  local url=${LOCKSTEP_CIFAR10_URL:-$cifar10_url} sha256=${LOCKSTEP_CIFAR10_SHA256:-$cifar10_sha256}
  local dir=$1 folder=$1/cifar-10-batches-bin archive=$1/cifar-10-binary.tar.gz.part name sum
  local names=(data_batch_{1..5}.bin test_batch.bin batches.meta.txt)

  # SHA256SUMS is written last, so a folder that holds it was once whole.
  if [[ -f $folder/SHA256SUMS ]]; then
    if (cd "$folder" && sha256sum --check --status SHA256SUMS 2>/dev/null); then
      say "$folder is already there and whole"
      return
    fi
    say "files in $folder have been damaged: fetching them anew"
  elif [[ -e $folder ]]; then
    die "$folder is there, but not from this script: use it, or move it away and run this again"
  fi
  if ! mkdir -p "$dir" || [[ ! -w $dir ]]; then die "cannot write to $dir: name another directory"; fi

  if [[ $(bytes_of "$archive") == 0 || $(checksum_of "$archive") != "$sha256" ]]; then
    say "downloading $url"
    download "$url" "$archive"
    sum=$(checksum_of "$archive")
    if [[ $sum != "$sha256" ]]; then
      rm -f "$archive"
      die "wrong checksum: $url has sha256 $sum where $sha256 is wanted; it has been deleted:" \
        "run this again, or set LOCKSTEP_CIFAR10_URL to a mirror"
    fi
  fi

  unpacked=$(mktemp -d "$dir/.unpack-XXXXXX")
  trap 'rm -rf "$unpacked"' EXIT
  tar -xzf "$archive" --no-same-owner -C "$unpacked" || die "cannot unpack $archive: is the disk full?"
  for name in "${names[@]}"; do
    [[ -f $unpacked/cifar-10-batches-bin/$name ]] ||
      die "$url holds no cifar-10-batches-bin/$name: is it the binary version?"
  done
  (cd "$unpacked/cifar-10-batches-bin" && sha256sum "${names[@]}" >SHA256SUMS)
  rm -rf "$folder"
  mv "$unpacked/cifar-10-batches-bin" "$folder"
  rm -f "$archive"
  say "CIFAR-10 is in $folder: train_cifar --data $dir"
}

case ${1-} in
  -h | --help) usage ;;
  cifar10)
    (($# <= 2)) || { usage >&2; exit 2; }
    get_cifar10 "${2:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/data/cifar10}"
    ;;
  "") usage >&2; exit 2 ;;
  *) say "unknown data set '$1'; known: $known"; exit 2 ;;
esac
