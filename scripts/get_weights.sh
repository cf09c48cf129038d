#!/usr/bin/env bash
# Downloads published weights of torchvision for --init. See --help.
set -euo pipefail

# Files of torchvision's default weights. A name contains the beginning of the file's SHA-256.
declare -rA files=(
  [resnet18]=resnet18-f37072fd.pth
  [resnet34]=resnet34-b627a593.pth
  [resnet50]=resnet50-11ad3fa6.pth
  [mobilenet_v3_large]=mobilenet_v3_large-5c1a4163.pth
  [convnext_tiny]=convnext_tiny-983f1562.pth
  [vit_b_16]=vit_b_16-c867db91.pth
)
readonly known="resnet18, resnet34, resnet50, mobilenet_v3_large, convnext_tiny, vit_b_16"

usage() {
  cat <<END
usage: scripts/get_weights.sh MODEL [DIR]

Downloads weights that torchvision published to DIR (default: data/weights in the repository), for
train_images --model MODEL --init FILE. They were trained on ImageNet.
An interrupted download continues. A complete file is not downloaded again.

models, with the size and the top-1 accuracy that torchvision states:
  resnet18             45 MiB   69.8 %
  resnet34             83 MiB   73.3 %
  resnet50             98 MiB   80.9 %
  mobilenet_v3_large   21 MiB   75.3 %
  convnext_tiny       109 MiB   82.5 %
  vit_b_16            330 MiB   81.1 %, for images of 224x224

environment:
  LOCKSTEP_WEIGHTS_URL     another URL of the folder with the files, such as a mirror
  LOCKSTEP_WEIGHTS_SHA256  the checksum of another file with this name, or its beginning
END
}

# shellcheck source=SCRIPTDIR/download.sh
. "$(dirname "${BASH_SOURCE[0]}")/download.sh"

get_weights() {
  local model=$1 dir=$2 name=${files[$1]} sha256
  sha256=${name##*-}
  sha256=${LOCKSTEP_WEIGHTS_SHA256:-${sha256%.pth}}
  make_directory "$dir"
  if [[ ! -e $dir/$name ]]; then
    download_whole "${LOCKSTEP_WEIGHTS_URL:-https://download.pytorch.org/models}/$name" "$dir/$name.part" "$sha256" LOCKSTEP_WEIGHTS_URL
    mv "$dir/$name.part" "$dir/$name"
  elif [[ $(checksum_of "$dir/$name") == "$sha256"* ]]; then
    say "$dir/$name is already complete"
  else
    die "$dir/$name is damaged or another file. Move it away and run this again."
  fi
  say "the weights are in $dir: train_images --model $model --init $dir/$name"
}

case ${1-} in
  -h | --help) usage ;;
  "") usage >&2; exit 2 ;;
  *)
    [[ -n ${files[$1]-} ]] || { say "unknown model '$1'. Use one of: $known."; exit 2; }
    (($# <= 2)) || { usage >&2; exit 2; }
    get_weights "$1" "${2:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/data/weights}"
    ;;
esac
