#!/usr/bin/env bash
# The example of every option of every program works. `--help OPTION` and the man page print it.
# usage: examples.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
programs=$(sed -n 's/^set(PROGRAMS \(.*\))$/\1/p' "$here/../../CMakeLists.txt")
for bench in bench_step bench_allreduce bench_loader cost_model; do
  [[ ! -x $build/$bench ]] || programs+=" $bench"
done

# Open MPI 4 then starts no daemon for a program without mpirun, which halves the time. Two such programs at once would
# use the same names.
export OMPI_MCA_ess_singleton_isolated=1

# The files that examples name. Files of zeros are valid CIFAR-10 data.
mkdir -p "$folder/data/cifar10"
printf 'class%s\n' {0..9} >"$folder/data/cifar10/batches.meta.txt"
truncate -s 30730000 "$folder"/data/cifar10/{data_batch_{1..5},test_batch}.bin
"$python" "$here/example_data.py" "$folder" 12 600 100
"$python" - "$folder" <<'END'
import os, sys
import numpy
os.chdir(sys.argv[1])
os.makedirs("data/reuters")
texts = numpy.empty(400, dtype=object)
texts[:] = [[1 + (i * j) % 50 for j in range(1 + i)] for i in range(400)]
numpy.savez("data/reuters/reuters.npz", x=texts, y=numpy.arange(400) % 46)
END
"$python" "$here/../../scripts/convert_reuters.py" "$folder/data/reuters/reuters.npz" "$folder/data/reuters" >"$folder/out"
expect "reuters.h5 is made" test -s "$folder/data/reuters/reuters.h5"

# Each program has a folder with the runs `first` and `second` in it.
train_here() {  # FOLDER PROGRAM OPTION...
  local place=$1 run
  mkdir -p "$folder/$place"
  ln -s "$folder/data" "$folder/photos" "$folder/labels.csv" "$folder/$place"
  cp "$folder/photos/test/cat/0.bmp" "$folder/$place/new.jpg"
  for run in first second; do
    run env -C "$folder/$place" "$build/$2" "${@:3}" --run $run --steps 1 --eval-every 0 --summary-every 0 --threads 1
    expect "$2 makes the run $run" test "$code" = 0
  done
  cp "$folder/$place"/runs/first/checkpoints/{step-*,best}.h5
}
train_here train_cifar train_cifar --model resnet_small
ln -s "$build" "$folder/train_cifar/build"  # for lockstep_run
echo "localhost slots=2" >"$folder/train_cifar/hosts"
train_here train_mnist train_mnist --model resnet_small
train_here train_reuters train_reuters
train_here photo_runs train_images --data photos
mkdir "$folder/train_texts"
for ((i = 0; i < 60; i++)); do echo "word$((i % 7)) of,$((i % 2)),$((i % 3))"; done |
  sed 's/[12]$/train/; s/0$/test/; 1i text,label,part' >"$folder/train_texts/reviews.csv"
train_here train_texts train_texts --data reviews.csv
small_data "$folder/made"
mkdir "$folder/small" && mv "$folder/made/small" "$folder/small/tested"
train_here small train_cifar --model resnet_small --dataset hdf5 --data tested --shards 2
ln -s "$build" "$folder/small/build"
run "$build/pack_images" "$folder/photos" "$folder/photo_runs/photos.h5"

has_bf16 || export LOCKSTEP_TEST_WITHOUT=bf16
examples() {  # PLACE PROGRAM...
  run env -C "$folder/$1" "$python" "$here/examples.py" "$build" "${@:2}"
  expect "the examples of ${*:2} work: $(cat "$folder/out")" test "$code" = 0
}
limit=400
for program in $programs; do
  case $program in
    train_cifar | train_mnist | train_reuters | train_texts) examples "$program" "$program" ;;
    bench_step | lockstep_run) examples train_cifar "$program" ;;
    evaluate | verify_run) examples small "$program" ;;
    *) examples photo_runs "$program" ;;
  esac
done

# The check itself can fail.
mkdir "$folder/fake"
cat >"$folder/fake/fake" <<'END'
#!/bin/sh
if [ "$1" = --print-man ]; then
  echo '.SH OPTIONS'
  for name in good bad idle other; do printf '.TP\n.B \\-\\-%s\nText.\nExample:\n.br\nfake \\-\\-%s\n' $name $name; done
  echo '.SH EXIT STATUS'
fi
[ "$1" != --idle ] || echo 'note --idle does nothing without --good'
[ "$1" != --bad ]
END
chmod +x "$folder/fake/fake"
run "$python" "$here/examples.py" "$folder/fake" fake
expect "examples that fail or have no effect are found" lines_with "$folder/out" '^4 examples 2 fail'
expect "they fail the test" test "$code" = 1
finish
