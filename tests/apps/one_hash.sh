#!/usr/bin/env bash
# Portable arithmetic: each model has one hash of its weights after its first steps, recorded here. Every processor, compiler,
# number of ranks and number of threads must reach it. A change of bits on purpose raises kPortableVersion and records anew.
# usage: one_hash.sh BUILD_FOLDER [record]     record prints the table below with the hashes of this build
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
# model, steps, program with its data, hash
table='
airbench94            5 train_cifar:whole       628bcf1e510b381ecf85bfafa0a434cdb22d81f42889acb3c1b52e98788fcc53
convnext_tiny         2 train_cifar:photos      3125e30e55b9dd495abfebdc06903929ef36fb46d7062fe10c0574f7ac868c52
deep_mnist           20 train_mnist:digits      379ceddb50c52dfcc4453e2ed6c481540a13fcd3b6d75aaae92e62f22ad2d731
keras                20 train_mnist:digits      4141ae76d375886f2734528363d0486d6272e3604f51096441b147f01983c7f6
mobilenet_v3_large    5 train_cifar:photos      58d47f7ad195a54e605d592db72b7ac6190be84b5c3a7d04ff2bcaefba9924c2
resnet18              5 train_cifar:photos      528bfa4ceaa4b5e224da6479756ffc5bdccb1b9326c2867f508e89eeec92b30d
resnet18_cifar        5 train_cifar:synthetic   4bf5867417f96667b384f49f1d669619b3ebae59de3cff9c921e4d93b00783a9
resnet20             20 train_cifar:synthetic   33ed5564d5a650514d2e83198764712f3a1ba7e261b60b3f9e7e9e8d87ab7306
resnet34              2 train_cifar:photos      7fcee019b301c2983f1ffd11ecb2b3c71b318f5aa2ac6eeefdd8da5c0f773e57
resnet50              2 train_cifar:photos      166e33fa5bb17b7012a25d6651ad2196d72abe13d1c1fd22170095a2a1bd8491
resnet56              5 train_cifar:synthetic   1022a2da8105806c25c2089a3688c676f9f2c6892e1a75990002ad029a7868e3
resnet_small         20 train_cifar:synthetic   bfc9c4740951c8103287130112bad1eca0b4800bd583c83de2768f80361d426d
reuters              20 train_reuters:topics    f1bbcb15be09e32ed8089782966789103880980c776447a0f72a214400dc6903
reuters_as_published 20 train_reuters:topics    b243201b7818ddccedb84866e9707b7ab1d12e267296986b48d35a1491a853ac
text_cnn             10 train_reuters:topics    c1dbe72c99d536f3bc5ac1f1101ebcdea46e17312e755fb9fb03754aed57bc97
tower                20 train_mnist:digits      a5c498b571ff298a1a64ec962ba3592e88f52fba59c99c2f2be3f55b67f47d22
tutorial             20 train_cifar:synthetic   e03773abaf51b25860ec786226d50db94ea455f7f7e28715a6c0eda49400f15b
vit_b_16              2 train_cifar:photos      001560bb3c18d457601a715b1a0793627f721d3844df62ef1c493a57226b2f17
'

# Photos of three sizes with a pattern in each channel, so that resizing and augmentation show in the weights.
small_data "$folder"
rm -r "$folder/photos"
"$python" - "$folder/photos" <<'PYTHON'
import os, struct, sys
for part, count in (("train", 12), ("val", 2)):
    for label in range(2):
        os.makedirs(f"{sys.argv[1]}/{part}/{label}")
        for i in range(count):
            width, height = 72 + 4 * (i % 3), 80 - 8 * (i % 3)
            data = bytes((x * (3 + label) + y * (5 + c) + i * 17) * (c + 1) % 251 for y in range(height) for x in range(width) for c in range(3))
            head = struct.pack("<2sIHHIIiiHHIIiiII", b"BM", 54 + len(data), 0, 0, 54, 40, width, height, 1, 24, 0, len(data), 0, 0, 0, 0)
            with open(f"{sys.argv[1]}/{part}/{label}/{i}.bmp", "wb") as file:
                file.write(head + data)
PYTHON

# hash_of MODEL STEPS PROGRAM:DATA: trains and prints the hash of the last weights. The recorded ones come from one rank with
# one thread, without warm-up, whose first learning rate is 0. Two ranks with other instruction sets, of two threads each, must
# reach them.
hash_of() {
  local program=("$build/${3%:*}" --no-run)
  case ${3#*:} in
    photos) program+=(--dataset folder --data "$folder/photos" --image-size 32 --color-jitter 0.4,0.4,0.4,0.1) ;;
    whole) program+=(--dataset hdf5 --data "$folder/whole") ;;
    *) program+=(--dataset "${3#*:}") ;;
  esac
  program+=(--model "$1" --steps "$2" --device cpu --global-batch 12 --shards 4 --seed 1 --eval-every 0 --warmup-epochs 0)
  if [[ $record ]]; then
    run "${program[@]}" --threads 1
  else
    two_commands "${program[@]}" --threads 2 --isa "$narrow" // "${program[@]}" --threads 2
  fi
  [[ $code == 0 ]] || { complain "exit code $code: ${program[*]}" >&2; return; }
  sed -n 's/^weights  *sha256 \([0-9a-f]*\) .*/\1/p' "$folder/out"
}

# The baseline of a build for this processor may be its widest set.
narrow=baseline
if grep -qw avx2 /proc/cpuinfo; then narrow=avx2; fi
record=${2:-}
while read -r model steps program recorded; do
  [[ -n $model ]] || continue
  hash=$(hash_of "$model" "$steps" "$program")
  if [[ $record ]]; then
    printf '%-20s %2d %-23s %s\n' "$model" "$steps" "$program" "$hash"
  else
    expect "$model: $hash, not $recorded" test "$hash" = "$recorded"
  fi
done <<<"$table"
for model in $("$build/train_cifar" --list | sed -n '/^models/,/^[a-z]/s/^  \([a-z0-9_]*\) .*/\1/p'); do
  expect "$model has a hash here" grep -q "^$model " <<<"$table"
done
finish
