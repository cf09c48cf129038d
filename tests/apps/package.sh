#!/usr/bin/env bash
# The Debian package that cpack makes: its files, its dependencies, and the processor that it was compiled for.
# usage: package.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
limit=200  # cpack, on a busy machine
for tool in cpack dpkg-deb dpkg-shlibdeps file; do
  command -v $tool >/dev/null || skip "$tool is not installed (scripts/install_dependencies.sh --tests)"
done
[[ $(ldd "$build/train_cifar") != *cudnn* ]] || skip "the build has CUDA, whose libraries are in no package of Debian"

# An installed copy is packed, because cpack would otherwise build everything.
run cmake --install "$build" --strip --prefix "$folder/prefix"
run cpack --config "$build/CPackConfig.cmake" -B "$folder/packages" -D CPACK_INSTALL_CMAKE_PROJECTS= \
  -D CPACK_DEBIAN_COMPRESSION_TYPE=gzip \
  -D "CPACK_INSTALLED_DIRECTORIES=$folder/prefix;/usr"
expect "a package is made" test $code = 0
package=$(echo "$folder"/packages/*.deb)
dpkg-deb -c "$package" | sed 's/.* \.//' >"$folder/files"
programs=$(sed -n 's/^set(PROGRAMS \(.*\))$/\1/p' "$here/../../CMakeLists.txt")
expect "the programs are known: $programs" test "$(wc -w <<<"$programs")" -gt 5
for program in $programs; do
  for file in bin/$program share/man/man1/$program.1 share/bash-completion/completions/$program; do
    expect "it contains $file" grep -qx "/usr/$file" "$folder/files"
  done
done
for file in copyright examples/example.toml examples/recipes/airbench94.toml slurm/train_cifar.sbatch docs/training.md; do
  expect "it contains $file" grep -qx "/usr/share/doc/lockstep/$file" "$folder/files"
done
expect "all files are below /usr" test "$(grep -vc '^/usr/\|^/$' "$folder/files")" = 0

dpkg-deb -f "$package" Depends | tr ',' '\n' >"$folder/depends"
for library in openmpi-bin python3 libopenmpi libhdf5 libdnnl libfmt libprotobuf libssl libgomp; do
  expect "it depends on $library" grep -q "^ *$library" "$folder/depends"
done
processor=$(sed -n 's/^LOCKSTEP_MARCH:.*=//p' "$build/CMakeCache.txt")
version=$("$build/train_cifar" --version | sed 's/^train_cifar \([0-9.]*\).*/\1/')
[[ $processor == x86-64-v3 ]] || version+=-${processor//-/.}
expect "its version is $version" test "$(dpkg-deb -f "$package" Version)" = "$version"
expect "the preset is for any processor with AVX2" \
  grep -q 'LOCKSTEP_MARCH="x86-64-v3"' <(cmake -S "$here/../.." --preset package -N)

dpkg-deb -x "$package" "$folder/root"
run "$folder/root/usr/bin/train_cifar" --no-run "${small[@]}" --steps 2
expect "a program of it trains" test $code = 0
finish
