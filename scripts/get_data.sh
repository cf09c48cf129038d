#!/usr/bin/env bash
# Downloads a data set, checks it and unpacks it for --data. See --help.
set -euo pipefail

readonly known="cifar10, mnist, reuters"
readonly cifar10_url=https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz
readonly cifar10_sha256=c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd
readonly mnist_url=https://ossci-datasets.s3.amazonaws.com/mnist  # PyTorch's mirror, because the original site needs a password
readonly mnist_sha256sums="\
440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609  train-images-idx3-ubyte.gz
3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c  train-labels-idx1-ubyte.gz
8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6  t10k-images-idx3-ubyte.gz
f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6  t10k-labels-idx1-ubyte.gz"

readonly reuters_url=https://storage.googleapis.com/tensorflow/tf-keras-datasets/reuters.npz  # Keras downloads it from here
readonly reuters_sha256=d6586e694ee56d7a4e65172e12b3e987c03096cb01eab99753921ef915959916

usage() {
  cat <<END
usage: scripts/get_data.sh DATASET [DIR]

Downloads DATASET to DIR for --data DIR (default: data/DATASET in the repository).
An interrupted download continues. Complete files are not downloaded again.

data sets:
  cifar10    CIFAR-10, binary version, for train_cifar: 162 MiB to download, 176 MiB unpacked
  mnist      MNIST, for train_mnist: 11 MiB in four files, which stay compressed
  reuters    Reuters newswires, for train_reuters: 2 MiB, which scripts/convert_reuters.py converts to reuters.h5

environment:
  LOCKSTEP_CIFAR10_URL       another URL of the archive, such as a mirror
  LOCKSTEP_CIFAR10_SHA256    the checksum of another archive
  LOCKSTEP_MNIST_URL         another URL of the folder with the four files
  LOCKSTEP_MNIST_SHA256SUMS  the checksums of other files with these names, as sha256sum prints them
  LOCKSTEP_REUTERS_URL       another URL of reuters.npz
  LOCKSTEP_REUTERS_SHA256    the checksum of another reuters.npz
END
}

# shellcheck source=SCRIPTDIR/download.sh
. "$(dirname "${BASH_SOURCE[0]}")/download.sh"

get_cifar10() {
  local url=${LOCKSTEP_CIFAR10_URL:-$cifar10_url} sha256=${LOCKSTEP_CIFAR10_SHA256:-$cifar10_sha256}
  local dir=$1 folder=$1/cifar-10-batches-bin archive=$1/cifar-10-binary.tar.gz.part name
  local names=(data_batch_{1..5}.bin test_batch.bin batches.meta.txt)

  # SHA256SUMS is written last, so a folder that contains it was once complete.
  if [[ -f $folder/SHA256SUMS ]]; then
    if (cd "$folder" && sha256sum --check --status SHA256SUMS 2>/dev/null); then
      say "$folder is already complete"
      return
    fi
    say "files in $folder are damaged and will be downloaded again"
  elif [[ -e $folder ]]; then
    die "$folder exists, but this script did not create it. Move it away and run this again, or name another directory."
  fi
  make_directory "$dir"

  download_whole "$url" "$archive" "$sha256" LOCKSTEP_CIFAR10_URL

  unpacked=$(mktemp -d "$dir/.unpack-XXXXXX")
  trap 'rm -rf "$unpacked"' EXIT
  tar -xzf "$archive" --no-same-owner -C "$unpacked" || die "cannot unpack $archive. Check the free disk space."
  for name in "${names[@]}"; do
    [[ -f $unpacked/cifar-10-batches-bin/$name ]] ||
      die "$url does not contain cifar-10-batches-bin/$name. Use the binary version of CIFAR-10."
  done
  (cd "$unpacked/cifar-10-batches-bin" && sha256sum "${names[@]}" >SHA256SUMS)
  # Only these files are replaced, because a damaged folder may contain other files of the user. SHA256SUMS comes last.
  mkdir -p "$folder"
  mv -f "${names[@]/#/$unpacked/cifar-10-batches-bin/}" "$folder"
  mv -f "$unpacked/cifar-10-batches-bin/SHA256SUMS" "$folder"
  rm -f "$archive"
  say "CIFAR-10 is in $folder: train_cifar --data $dir"
}

get_mnist() {
  local dir=$1 url=${LOCKSTEP_MNIST_URL:-$mnist_url} sums=${LOCKSTEP_MNIST_SHA256SUMS:-$mnist_sha256sums} sum name missing=0
  make_directory "$dir"
  while read -r sum name; do
    # train_mnist prefers an uncompressed file, so files of the user would be mixed with those of MNIST.
    [[ ! -e $dir/${name%.gz} ]] ||
      die "$dir/${name%.gz} exists, but this script did not create it. Name another directory."
    if [[ -f $dir/$name ]]; then
      [[ $(checksum_of "$dir/$name") == "$sum" ]] ||
        die "$dir/$name is damaged or not a file of MNIST. Move it away and run this again."
      continue
    fi
    missing=$((missing + 1))
    download_whole "$url/$name" "$dir/$name.part" "$sum" LOCKSTEP_MNIST_URL </dev/null
    mv "$dir/$name.part" "$dir/$name"
  done <<<"$sums"
  if ((missing == 0)); then say "$dir is already complete"; fi
  say "MNIST is in $dir: train_mnist --data $dir"
}

get_reuters() {
  local dir=$1 archive=$1/reuters.npz python here
  local url=${LOCKSTEP_REUTERS_URL:-$reuters_url} sha256=${LOCKSTEP_REUTERS_SHA256:-$reuters_sha256}
  here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
  make_directory "$dir"
  if [[ ! -f $archive ]]; then
    download_whole "$url" "$archive.part" "$sha256" LOCKSTEP_REUTERS_URL
    mv "$archive.part" "$archive"
  fi
  [[ $(checksum_of "$archive") == "$sha256" ]] ||
    die "$archive is damaged or not the archive of Keras. Move it away and run this again."
  for python in python3 /usr/bin/python3 none; do
    if command -v "$python" >/dev/null && "$python" -c 'import h5py, numpy' 2>/dev/null; then break; fi
  done
  [[ $python != none ]] ||
    die "no Python has the package h5py, which converts $archive. Install it (sudo apt-get install python3-h5py) and run this again."
  converted=$(mktemp -d "$dir/.convert-XXXXXX")
  trap 'rm -rf "$converted"' EXIT
  "$python" "$here/convert_reuters.py" "$archive" "$converted" >/dev/null || die "cannot convert $archive (see above). Move it away and run this again."
  if [[ -e $dir/reuters.h5 && $(checksum_of "$converted/reuters.h5") != "$(checksum_of "$dir/reuters.h5")" ]]; then
    die "$dir/reuters.h5 is damaged or of another data set. Move it away and run this again."
  fi
  mv -f "$converted/reuters.h5" "$dir/reuters.h5"
  say "the Reuters newswires are in $dir: train_reuters --data $dir"
}

case ${1-} in
  -h | --help) usage ;;
  cifar10 | mnist | reuters)
    (($# <= 2)) || { usage >&2; exit 2; }
    "get_$1" "${2:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/data/$1}"
    ;;
  "") usage >&2; exit 2 ;;
  *) say "unknown data set '$1'. Use one of: $known."; exit 2 ;;
esac
