#!/usr/bin/env bash
# scripts/get_data.sh and get_weights.sh with a private server: complete and broken downloads, wrong checksums, no server. Once with curl and
# once with wget, if they are installed. Skipped (77) without python3 or without both.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
data=$here/../../scripts/get_data.sh weights=$here/../../scripts/get_weights.sh
script=$data
work=$(mktemp -d)
server=
trap '[[ -z $server ]] || kill "$server"; rm -rf "$work"' EXIT

skip() { echo "skipped: $*"; exit 77; }
fail() { echo "FAILED: $*" >&2; [[ ! -f $work/output ]] || cat "$work/output" >&2; exit 1; }
command -v python3 >/dev/null || skip "no python3"
downloaders=$(for name in curl wget; do if command -v $name >/dev/null; then echo $name; fi; done)
[[ -n $downloaders ]] || skip "neither curl nor wget"

# An archive with the official names and small files.
mkdir "$work/cifar-10-batches-bin"
for name in data_batch_{1..5}.bin test_batch.bin batches.meta.txt; do
  head -c 100000 /dev/urandom >"$work/cifar-10-batches-bin/$name"
done
tar -czf "$work/archive" -C "$work" cifar-10-batches-bin
size=$(stat --format=%s "$work/archive")
LOCKSTEP_CIFAR10_SHA256=$(sha256sum "$work/archive" | cut -d' ' -f1)
digits=({train,t10k}-{images-idx3,labels-idx1}-ubyte.gz)
LOCKSTEP_MNIST_SHA256SUMS=$(printf "$LOCKSTEP_CIFAR10_SHA256  %s\n" "${digits[@]}")
export LOCKSTEP_CIFAR10_SHA256 LOCKSTEP_MNIST_SHA256SUMS no_proxy=127.0.0.1

touch "$work/log"
python3 "$here/get_data_server.py" "$work/archive" "$work/log" "$work/port" &
server=$!
for ((i = 0; i < 200; i++)); do
  if [[ -f $work/port ]]; then break; fi
  sleep 0.05
done
[[ -f $work/port ]] || fail "the server did not start"
base=http://127.0.0.1:$(cat "$work/port")

# get CODE PATH DIR [BASE]: runs the script, which must end with CODE. Its output is in $work/output.
dataset=cifar10
get() {
  local code=0
  LOCKSTEP_CIFAR10_URL=${4-$base}/$2 LOCKSTEP_MNIST_URL=${4-$base}/$2 LOCKSTEP_WEIGHTS_URL=${4-$base}/$2 \
    bash "$script" $dataset "$3" >"$work/output" 2>&1 || code=$?
  [[ $code == "$1" ]] || fail "$downloader $2: ended with $code, expected $1"
}
expect_output() { grep -q -e "$1" "$work/output" || fail "$downloader: no line contains '$1'"; }
requests() { grep -c "^/$1 " "$work/log" || true; }
# DIR contains the complete data and nothing else.
expect_whole() {
  diff -r -x SHA256SUMS "$work/cifar-10-batches-bin" "$1/cifar-10-batches-bin" >/dev/null || fail "$downloader: other data in $1"
  [[ $(ls -A "$1") == cifar-10-batches-bin ]] || fail "$downloader: leftovers in $1: $(ls -A "$1")"
}
expect_nothing() { [[ -z $(ls -A "$1") ]] || fail "$downloader: leftovers in $1: $(ls -A "$1")"; }

# A PATH with the named tools alone.
tools=(bash cat cut dirname head ls mkdir mktemp mv rm sha256sum sleep stat tar gzip)
path_with() {
  local bin name
  bin=$(mktemp -d "$work/bin-XXXX")
  for name in "${tools[@]}" "$@"; do ln -s "$(command -v "$name")" "$bin/$name"; done
  echo "$bin"
}
everything=$PATH

for downloader in $downloaders; do
  PATH=$(path_with "$downloader" cmp diff find grep sort wc)

  dir=$work/$downloader/whole
  get 0 "whole-$downloader" "$dir"
  expect_whole "$dir"
  expect_output "train_cifar --data $dir"

  # Complete data: no request. Damaged data: downloaded again.
  get 0 "whole-$downloader" "$dir"
  expect_output "already complete"
  [[ $(requests "whole-$downloader") == 1 ]] || fail "$downloader: asked again for what was there"
  echo >>"$dir/cifar-10-batches-bin/data_batch_3.bin"
  echo mine >"$dir/cifar-10-batches-bin/notes.txt"
  get 0 "whole-$downloader" "$dir"
  expect_output "damaged"
  [[ $(cat "$dir/cifar-10-batches-bin/notes.txt") == mine ]] || fail "$downloader: a file of the user was removed"
  rm "$dir/cifar-10-batches-bin/notes.txt"
  expect_whole "$dir"
  get 0 "whole-$downloader" "$dir"
  expect_output "already complete"

  # A connection that breaks: the second request is for the rest only.
  dir=$work/$downloader/broken
  get 0 "break-$downloader" "$dir"
  expect_whole "$dir"
  [[ $(requests "break-$downloader") == 2 ]] || fail "$downloader: $(requests "break-$downloader") requests instead of 2"
  grep -q "^/break-$downloader bytes=$((size / 2))-" "$work/log" || fail "$downloader: the second request asked for all"

  # A run that was killed during the download, and one killed between download and unpacking.
  for there in $((size / 3)) "$size"; do
    dir=$work/$downloader/killed-$there
    mkdir -p "$dir"
    head -c "$there" "$work/archive" >"$dir/cifar-10-binary.tar.gz.part"
    get 0 "killed-$downloader" "$dir"
    expect_whole "$dir"
  done
  [[ $(grep "^/killed-$downloader " "$work/log") == "/killed-$downloader bytes=$((size / 3))-" ]] ||
    fail "$downloader: asked for other bytes than the rest: $(grep "^/killed-$downloader " "$work/log")"

  # A wrong checksum: the error names it, no file stays, and the next run succeeds.
  dir=$work/$downloader/wrong
  LOCKSTEP_CIFAR10_SHA256=0123 get 1 "wrong-$downloader" "$dir"
  expect_output "wrong checksum.*$LOCKSTEP_CIFAR10_SHA256 instead of 0123.*LOCKSTEP_CIFAR10_URL"
  expect_nothing "$dir"
  get 0 "wrong-$downloader" "$dir"
  expect_whole "$dir"

  # A partial download of another file, from a server that cannot resume: an error with advice, or the right data.
  dir=$work/$downloader/plain
  mkdir -p "$dir"
  head -c 1000 "$work/archive" >"$dir/cifar-10-binary.tar.gz.part"
  if [[ $downloader == curl ]]; then
    get 1 "plain-$downloader" "$dir"
    expect_output "move $dir/cifar-10-binary.tar.gz.part away"
    rm "$dir/cifar-10-binary.tar.gz.part"
  fi
  get 0 "plain-$downloader" "$dir"
  expect_whole "$dir"

  # No server: an error at once, with the URL and advice.
  dir=$work/$downloader/missing
  get 1 archive "$dir" http://127.0.0.1:1
  expect_output "cannot download http://127.0.0.1:1/archive.*LOCKSTEP_CIFAR10_URL"
  expect_nothing "$dir"

  # A folder that the script did not create stays unchanged.
  dir=$work/$downloader/foreign
  mkdir -p "$dir/cifar-10-batches-bin"
  get 1 "foreign-$downloader" "$dir"
  expect_output "Move it away"
  expect_nothing "$dir/cifar-10-batches-bin"

  # Four files that stay compressed: each is downloaded once, continued after a break, and never overwritten.
  dataset=mnist dir=$work/$downloader/digits
  get 0 "break-digits-$downloader" "$dir"
  expect_output "train_mnist --data $dir"
  [[ $(requests "break-digits-$downloader/.*") == 8 ]] || fail "$downloader: $(requests "break-digits-$downloader/.*") requests instead of 8"
  [[ $(ls -A "$dir") == "$(printf '%s\n' "${digits[@]}" | sort)" ]] || fail "$downloader: leftovers in $dir: $(ls -A "$dir")"
  for name in "${digits[@]}"; do cmp -s "$dir/$name" "$work/archive" || fail "$downloader: other data in $dir/$name"; done
  rm "$dir/${digits[1]}"
  get 0 "whole-digits-$downloader" "$dir"
  [[ $(requests "whole-digits-$downloader/.*") == 1 ]] || fail "$downloader: asked again for what was there"
  get 0 "whole-digits-$downloader" "$dir"
  expect_output "already complete"
  echo user >"$dir/${digits[2]}"
  get 1 "whole-digits-$downloader" "$dir"
  expect_output "${digits[2]} is damaged or not a file of MNIST. Move it away"
  [[ $(cat "$dir/${digits[2]}") == user ]] || fail "$downloader: a file of the user was overwritten"
  rm "$dir/${digits[2]}"
  LOCKSTEP_MNIST_SHA256SUMS="0123  ${digits[2]}" get 1 "whole-digits-$downloader" "$dir"
  expect_output "wrong checksum.* instead of 0123.*LOCKSTEP_MNIST_URL"
  [[ $(find "$dir" -type f | wc -l) == 3 ]] || fail "$downloader: leftovers in $dir: $(ls -A "$dir")"
  # train_mnist would mix an uncompressed file of the user with files of MNIST.
  mkdir -p "$work/$downloader/unpacked"
  echo mine >"$work/$downloader/unpacked/train-images-idx3-ubyte"
  get 1 "whole-digits-$downloader" "$work/$downloader/unpacked"
  expect_output "train-images-idx3-ubyte exists, but this script did not create it. Name another directory"
  [[ $(ls -A "$work/$downloader/unpacked") == train-images-idx3-ubyte ]] || fail "$downloader: files beside those of the user"
  get 1 digits "$work/$downloader/no_server" http://127.0.0.1:1
  expect_output "cannot download http://127.0.0.1:1/digits/train-images-idx3-ubyte.gz.*LOCKSTEP_MNIST_URL"
  expect_nothing "$work/$downloader/no_server"

  # Weights: one file, whose name contains the beginning of its checksum.
  script=$weights dataset=resnet18 dir=$work/$downloader/weights name=resnet18-f37072fd.pth
  get 1 "wrong-weights-$downloader" "$dir"
  expect_output "wrong checksum.*$LOCKSTEP_CIFAR10_SHA256 instead of f37072fd.*LOCKSTEP_WEIGHTS_URL"
  expect_nothing "$dir"
  get 1 weights "$dir" http://127.0.0.1:1
  expect_output "get_weights.sh: cannot download http://127.0.0.1:1/weights/$name.*LOCKSTEP_WEIGHTS_URL"
  expect_nothing "$dir"
  export LOCKSTEP_WEIGHTS_SHA256=${LOCKSTEP_CIFAR10_SHA256::8}
  get 0 "break-weights-$downloader" "$dir"
  expect_output "train_images --model resnet18 --init $dir/$name"
  [[ $(ls -A "$dir") == "$name" ]] || fail "$downloader: leftovers in $dir: $(ls -A "$dir")"
  cmp -s "$dir/$name" "$work/archive" || fail "$downloader: other weights"
  get 0 "break-weights-$downloader" "$dir"
  expect_output "already complete"
  [[ $(requests "break-weights-$downloader/.*") == 2 ]] || fail "$downloader: asked again for weights that were there"
  echo user >"$dir/$name"
  get 1 "whole-weights-$downloader" "$dir"
  expect_output "damaged or another file. Move it away"
  [[ $(cat "$dir/$name") == user ]] || fail "$downloader: weights of the user were overwritten"
  unset LOCKSTEP_WEIGHTS_SHA256
  script=$data dataset=cifar10
  PATH=$everything
done

downloader=neither
PATH=$(path_with grep)
get 1 archive "$work/neither"
expect_output "curl and wget are missing"
PATH=$everything

# The command line.
for variable in LOCKSTEP_CIFAR10_URL LOCKSTEP_MNIST_URL; do
  bash "$script" --help | grep -q $variable || fail "--help does not name $variable"
done
expect_usage() {  # SCRIPT WORDS ARGUMENTS...: each of ARGUMENTS is wrong
  local arguments code
  for arguments in "${@:3}"; do
    code=0
    # shellcheck disable=SC2086
    bash "$1" $arguments >"$work/output" 2>&1 || code=$?
    [[ $code == 2 ]] || fail "${1##*/} '$arguments': ended with $code"
    expect_output "$2"
  done
}
expect_usage "$script" "cifar10.*mnist\|usage" "cifar100" "" "cifar10 one two"
bash "$weights" --help | grep -q LOCKSTEP_WEIGHTS_URL || fail "--help of get_weights.sh does not name its variable"
expect_usage "$weights" "mobilenet_v3_large" "resnet19" "" "resnet18 one two"
echo "passed with: ${downloaders//$'\n'/ }"
