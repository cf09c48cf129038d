#!/usr/bin/env bash
# The result of cmake --install: programs that start, and the library with which the example of docs/library.md is built.
. "$(dirname "$0")/lib.sh"

prefix=$folder/prefix user=$folder/user trainer=$folder/trainer number=0
quietly() { "$@" >"$folder/out" 2>"$folder/raw"; }
mkdir "$user" "$trainer"
expect "it installs" quietly cmake --install "$build" --prefix "$prefix"
expect "a program starts" quietly "$prefix/bin/train_cifar" --version
printf '%s\n' '[sweep]' 'lr = [1]' >"$user/one.toml"
expect "sweep_runs finds the programs and the batch script" quietly "$prefix/bin/sweep_runs" --slurm --print "$user/one.toml"
for program in train_cifar train_mnist train_reuters train_images train_texts evaluate classify export_model pack_images compare_runs report_runs verify_run lockstep_run; do
  expect "$program has a man page" grep -q '^\.TH' "$prefix/share/man/man1/$program.1"
  expect "$program has a completion" bash -n "$prefix/share/bash-completion/completions/$program"
done

# Number $2 of the blocks of code in language $1 of docs/library.md.
example() {
  awk -v fence='```'"$1" -v number="$2" '/^```$/ { on = 0 } on; $0 == fence { on = ++count == number }' "$here/../../docs/library.md"
}
example cmake 1 >"$user/CMakeLists.txt"
for name in sums fastest settings; do
  number=$((number + 1))
  example cpp $number >"$user/$name.cc"
  expect "docs/library.md has the program $name" grep -q "\"$name\"" "$user/$name.cc"
  printf 'add_executable(%s %s.cc)\ntarget_link_libraries(%s lockstep::collectives)\n' $name $name $name >>"$user/more"
done
tail -n +3 "$user/more" >>"$user/CMakeLists.txt"
expect "the first is no more than 35 lines" test "$(wc -l <"$user/sums.cc")" -le 35
expect "they are configured" quietly cmake -S "$user" -B "$user/build" -DCMAKE_PREFIX_PATH="$prefix"
expect "they are built" quietly cmake --build "$user/build"

# The same for the component train.
example cmake 2 >"$trainer/CMakeLists.txt"
for name in small stripes; do
  number=$((number + 1))
  example cpp $number >"$trainer/$name.cc"
  expect "docs/library.md has the program train_$name" grep -q "\"train_$name\"" "$trainer/$name.cc"
done
expect "training programs are configured" quietly cmake -S "$trainer" -B "$trainer/build" -DCMAKE_PREFIX_PATH="$prefix"
expect "training programs are built" quietly cmake --build "$trainer/build"

# Each installed header is part of an example, and of the API reference.
mpi_include=$(mpicxx --showme:incdirs | sed 's/[^ ]*/-I&/g')
# shellcheck disable=SC2086  # a list of words
c++ -std=c++20 -MM -I"$prefix/include/lockstep" $mpi_include "$user"/*.cc "$trainer"/*.cc >"$folder/reached"
(cd "$prefix/include/lockstep" && find . -name '*.h' | sed 's|^\./||') >"$folder/headers"
expect "headers are installed" test "$(wc -l <"$folder/headers")" -gt 10
while IFS= read -r header; do
  expect "an example reaches $header" grep -qF "/$header" "$folder/reached"
  expect "docs/Doxyfile names $header" grep -qF " $header" "$here/../../docs/Doxyfile"
done <"$folder/headers"
if command -v doxygen >/dev/null; then
  expect "doxygen has no warning" quietly env -C "$here/../.." doxygen <(sed "s|^OUTPUT_DIRECTORY.*|OUTPUT_DIRECTORY = $folder/api|" "$here/../../docs/Doxyfile")
fi

expect "no path of this source tree is left in the package" \
  bash -c "! grep -r '$(cd "$here/../.." && pwd)/\(src\|collectives\)' '$prefix'/lib*/cmake"
expect "lockstep::collectives needs no library of images, logs, data sets or layers" \
  bash -c "! grep -iE 'protobuf|nlohmann|zlib|png|jpeg|hdf5|openssl|dnnl|onednn' '$prefix'/lib*/cmake/lockstep/lockstep-targets*"
expect "the program links none either" \
  bash -c "! ldd '$user/build/sums' | grep -iE 'protobuf|libpng|jpeg|hdf5|dnnl'"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
start() { timeout 60 mpirun --oversubscribe -np 3 "$user/build/$1" 2>"$folder/raw"; }
said=$(start sums)
expect "three ranks sum 0 + 1 + 2 and 1 + 2 + 3: $said" test "${said##*: }" = "3 and 6"
said=$(start fastest)
expect "three ranks sum 1 + 2 + 3: $said" test "${said##*sum }" = 6
start settings
expect "all ranks fail alike" test "$?:$(grep -c 'FOLDER is not set' "$folder/raw")" = 2:1
FOLDER=data start settings
expect "and agree" test $? = 0

cd "$folder" || exit 1
learn() { run mpirun --oversubscribe -np 2 "$trainer/build/$1" "${@:2}" --threads 1 --global-batch 32 --eval-every 0; }
learn stripes --steps 20 --run "$folder/striped"
expect "a data set of the user's own is trained on" test "$code" = 0
expect_line "and learnt" 'step 20/20 accuracy 100%'
run "$prefix/bin/export_model" "$folder/striped" "$folder/striped.onnx"
expect_error "its samples have no form" 1 '^export_model: striped SampleFormat'
run "$prefix/bin/evaluate" "$folder/striped"
expect_error "its data set is its program's" 2 '^evaluate: striped data.set.stripes, unknown train_stripes.evaluate'
run mpirun --oversubscribe -np 2 "$trainer/build/stripes" evaluate "$folder/striped" --threads 1
expect_line "which evaluates it" '^step.20 top-1 100.samples'
python3 "$here/example_data.py" "$folder" 8 1 1
learn small --data photos --image-size 16 --steps 2 --run own
expect "a model of the user's own is trained" test "$code" = 0
own() { run "$trainer/build/small" "$@" --weights raw; }
own evaluate own --threads 1
expect_line "its program evaluates it" '^step.2 raw top-1 8.samples'
own classify own photos/test/dog/1.bmp --threads 1
expect_line "classifies" '^photos/test/dog/1.bmp: cat dog'
own export own own.onnx
expect_line "and exports it" '^own.onnx: small, raw'
own export_model own own.onnx
expect_error "a file that exists" 2 '^train_small.export_model: own.onnx exists'
run "$prefix/bin/classify" own photos/test/dog/1.bmp
expect_error "other programs name it" 2 '^classify: own/ model.small, unknown train_small.evaluate'
run "$trainer/build/small" --help
expect_line "its help lists these words" '^train_small.evaluate train_small.classify train_small.export'
learn small --dataset synthetic --model smal --no-run
expect_error "and suggested" 2 '^train_small small'
finish
