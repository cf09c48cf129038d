#!/usr/bin/env bash
# scripts/get_data.sh against a server of its own: whole and broken downloads, wrong checksums, no server. Once with curl and
# once with wget, as far as they are installed. Skipped (77) without python3 and one of these.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
script=$here/../../scripts/get_data.sh
work=$(mktemp -d)
server=
trap '[[ -z $server ]] || kill "$server"; rm -rf "$work"' EXIT

skip() { echo "skipped: $*"; exit 77; }
fail() { echo "FAILED: $*" >&2; [[ ! -f $work/output ]] || cat "$work/output" >&2; exit 1; }
command -v python3 >/dev/null || skip "no python3"
downloaders=$(for name in curl wget; do if command -v $name >/dev/null; then echo $name; fi; done)
[[ -n $downloaders ]] || skip "neither curl nor wget"

# An archive of the official names, with little in them.
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

# get CODE PATH DIR [BASE]: runs the script, which must end with CODE, its output in $work/output.
dataset=cifar10
get() {
  local code=0
  LOCKSTEP_CIFAR10_URL=${4-$base}/$2 LOCKSTEP_MNIST_URL=${4-$base}/$2 bash "$script" $dataset "$3" >"$work/output" 2>&1 ||
    code=$?
  [[ $code == "$1" ]] || fail "$downloader $2: ended with $code, expected $1"
}
expect_output() { grep -q -e "$1" "$work/output" || fail "$downloader: nothing said of '$1'"; }
requests() { grep -c "^/$1 " "$work/log" || true; }
# The data in DIR is whole, and nothing else is there.
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

  # Already there: no request. Damaged since: fetched anew.
  get 0 "whole-$downloader" "$dir"
  expect_output "already there"
  [[ $(requests "whole-$downloader") == 1 ]] || fail "$downloader: asked again for what was there"
  echo >>"$dir/cifar-10-batches-bin/data_batch_3.bin"
  echo mine >"$dir/cifar-10-batches-bin/notes.txt"
  get 0 "whole-$downloader" "$dir"
  expect_output "damaged"
  [[ $(cat "$dir/cifar-10-batches-bin/notes.txt") == mine ]] || fail "$downloader: a file of the user was removed"
  rm "$dir/cifar-10-batches-bin/notes.txt"
  expect_whole "$dir"
  get 0 "whole-$downloader" "$dir"
  expect_output "already there"

  # A connection that breaks: the rest is asked for, and no more.
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

  # A wrong checksum: named, nothing kept, and the next run succeeds.
  dir=$work/$downloader/wrong
  LOCKSTEP_CIFAR10_SHA256=0123 get 1 "wrong-$downloader" "$dir"
  expect_output "wrong checksum.*$LOCKSTEP_CIFAR10_SHA256 where 0123 is wanted.*LOCKSTEP_CIFAR10_URL"
  expect_nothing "$dir"
  get 0 "wrong-$downloader" "$dir"
  expect_whole "$dir"

  # A partial download of something else, from a server that cannot resume: an error with its cure, or the right data.
  dir=$work/$downloader/plain
  mkdir -p "$dir"
  head -c 1000 "$work/archive" >"$dir/cifar-10-binary.tar.gz.part"
  if [[ $downloader == curl ]]; then
    get 1 "plain-$downloader" "$dir"
    expect_output "delete $dir/cifar-10-binary.tar.gz.part"
    rm "$dir/cifar-10-binary.tar.gz.part"
  fi
  get 0 "plain-$downloader" "$dir"
  expect_whole "$dir"

  # No server: at once, with the address and the cure.
  dir=$work/$downloader/missing
  get 1 archive "$dir" http://127.0.0.1:1
  expect_output "cannot download http://127.0.0.1:1/archive.*LOCKSTEP_CIFAR10_URL"
  expect_nothing "$dir"

  # A folder with other files is left as it is.
  dir=$work/$downloader/foreign
  mkdir -p "$dir/cifar-10-batches-bin"
  get 1 "foreign-$downloader" "$dir"
  expect_output "move it away"
  expect_nothing "$dir/cifar-10-batches-bin"

  # Four files that stay as they are: fetched once each, gone on with where the connection breaks, and never written over.
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
  expect_output "already there"
  echo somebody >"$dir/${digits[2]}"
  get 1 "whole-digits-$downloader" "$dir"
  expect_output "${digits[2]} is there, but damaged or not MNIST's: move it away"
  [[ $(cat "$dir/${digits[2]}") == somebody ]] || fail "$downloader: wrote over somebody's file"
  rm "$dir/${digits[2]}"
  LOCKSTEP_MNIST_SHA256SUMS="0123  ${digits[2]}" get 1 "whole-digits-$downloader" "$dir"
  expect_output "wrong checksum.* where 0123 is wanted.*LOCKSTEP_MNIST_URL"
  [[ $(find "$dir" -type f | wc -l) == 3 ]] || fail "$downloader: leftovers in $dir: $(ls -A "$dir")"
  # train_mnist would read an uncompressed file of the user beside files of MNIST.
  mkdir -p "$work/$downloader/unpacked"
  echo mine >"$work/$downloader/unpacked/train-images-idx3-ubyte"
  get 1 "whole-digits-$downloader" "$work/$downloader/unpacked"
  expect_output "train-images-idx3-ubyte is there, but not from this script: name another directory"
  [[ $(ls -A "$work/$downloader/unpacked") == train-images-idx3-ubyte ]] || fail "$downloader: files beside those of the user"
  get 1 digits "$work/$downloader/no_server" http://127.0.0.1:1
  expect_output "cannot download http://127.0.0.1:1/digits/train-images-idx3-ubyte.gz.*LOCKSTEP_MNIST_URL"
  expect_nothing "$work/$downloader/no_server"
  dataset=cifar10
  PATH=$everything
done

downloader=neither
PATH=$(path_with grep)
get 1 archive "$work/neither"
expect_output "needs curl or wget"
PATH=$everything

# The command line.
for variable in LOCKSTEP_CIFAR10_URL LOCKSTEP_MNIST_URL; do
  bash "$script" --help | grep -q $variable || fail "--help is silent about mirrors"
done
for arguments in "cifar100" "" "cifar10 one two"; do
  code=0
  # shellcheck disable=SC2086
  bash "$script" $arguments >"$work/output" 2>&1 || code=$?
  [[ $code == 2 ]] || fail "'$arguments': ended with $code"
  expect_output "cifar10.*mnist\|usage"
done
echo "passed with: ${downloaders//$'\n'/ }"
