#!/usr/bin/env bash
# The result of cmake --install: programs that start, and the library with which the example of docs/library.md is built.
. "$(dirname "$0")/lib.sh"

prefix=$folder/prefix user=$folder/user
quietly() { "$@" >"$folder/out" 2>"$folder/raw"; }
mkdir "$user"
expect "it installs" quietly cmake --install "$build" --prefix "$prefix"
expect "a program starts" quietly "$prefix/bin/train_cifar" --version
for program in train_cifar train_mnist train_reuters evaluate; do
  expect "$program has a man page" grep -q '^\.TH' "$prefix/share/man/man1/$program.1"
  expect "$program has a completion" bash -n "$prefix/share/bash-completion/completions/$program"
done

# The first block of code of that language in docs/library.md.
example() { awk -v fence='```'"$1" '$0 == fence { on = 1; next } /^```$/ { if (on) exit } on' "$here/../../docs/library.md"; }
example cpp >"$user/sums.cc"
example cmake >"$user/CMakeLists.txt"
expect "the example of docs/library.md exists" grep -q make_reducer "$user/sums.cc"
expect "it is no more than 35 lines" test "$(wc -l <"$user/sums.cc")" -le 35
expect "it is configured" quietly cmake -S "$user" -B "$user/build" -DCMAKE_PREFIX_PATH="$prefix"
expect "it is built" quietly cmake --build "$user/build"
expect "no path of this source tree is left in the package" \
  bash -c "! grep -r '$(cd "$here/../.." && pwd)/\(src\|collectives\)' '$prefix'/lib*/cmake"
expect "the package needs no library of images, logs, data sets or layers" \
  bash -c "! grep -riE 'protobuf|nlohmann|zlib|png|jpeg|hdf5|dnnl|onednn' '$prefix'/lib*/cmake"
expect "the program links none either" \
  bash -c "! ldd '$user/build/sums' | grep -iE 'protobuf|libpng|jpeg|hdf5|dnnl'"

said=$(OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 60 \
  mpirun --oversubscribe -np 3 "$user/build/sums" 2>"$folder/raw")
expect "three ranks sum 0 + 1 + 2 and 1 + 2 + 3: $said" test "${said##*: }" = "3 and 6"
finish
