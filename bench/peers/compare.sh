#!/usr/bin/env bash
# Compares Lockstep with PyTorch and TensorFlow on this machine: the same network, global batch and cores, in turns
# (A B C A B C ...). Prints a table of medians and ratios.
set -euo pipefail
# shellcheck source=SCRIPTDIR/../../scripts/common.sh
. "$(dirname "$0")/../../scripts/common.sh"
here=$root/bench/peers
venv=${LOCKSTEP_PEERS:-$root/build-peers}
# One line per network. The generated data has the shape of its samples, and the batch is that of its recipe. The timed
# steps take a few seconds.
#           data      batch steps warmup
settings='tutorial   synthetic  64  40   5
          deep_mnist digits     64  40   5
          tower      digits   1024   1   1
          keras      digits    128   4   2
          reuters    topics     16 200  20
          resnet20   noise      64  15   3
          resnet18_cifar   noise      64   3   1
          airbench94 noise    1000   2   1
          resnet18   photos      8   3   1
          resnet50   photos      8   2   1
          mobilenet_v3_large photos 8 3 1
          convnext_tiny photos   8   2   1
          vit_b_16   photos      8   1   1'
rounds=3 ranks=2 batch='' steps='' warmup='' precisions='' chosen='pytorch tensorflow' nets=tutorial
# All that both peers have, and those that PyTorch takes from torchvision.
all=$(awk '$2 != "photos" { printf "%s%s", sep, $1; sep = " " }' <<<"$settings")
photos=$(awk '$2 == "photos" { printf "%s%s", sep, $1; sep = " " }' <<<"$settings")

usage() {
  cat <<HELP
usage: bench/peers/compare.sh [options]

  --net LIST       networks: all: $all ("$nets");
                   only with --peers pytorch: $photos
  --rounds N       runs of each program, in turns ($rounds)
  --steps N        timed steps of each run (depends on the network)
  --warmup N       steps before the timed ones (depends on the network)
  --ranks N        processes or replicas, one thread each ($ranks)
  --batch N        samples per rank and step (the network's recipe)
  --precision P    fp32, bf16 or both (both; fp32 for several networks or without AVX-512)
  --peers LIST     some of pytorch pytorch-compile tensorflow tensorflow-xla ("$chosen"); compiling takes a minute or more

Environment:
  LOCKSTEP_PEERS   virtual environment with PyTorch and TensorFlow ($venv)
  LOCKSTEP_BUILD   build folder with bench_step ($build)
bench/peers/README.md explains how to install PyTorch and TensorFlow.
HELP
}

while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --rounds | --steps | --warmup | --ranks | --batch)
      [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || fail "$1 needs a positive number, not '${2:-}'. Pass 1 or more." 2
      declare "${1#--}=$2" ;;
    --precision)
      case ${2:-} in
        fp32 | bf16) precisions=$2 ;;
        both) precisions='fp32 bf16' ;;
        *) fail "unknown precision '${2:-}'. Use fp32, bf16 or both." 2 ;;
      esac ;;
    --peers) chosen=${2:-} ;;
    --net) nets=${2:-} ;;
    *) fail "unknown option $1. See --help." 2 ;;
  esac
  shift 2
done
[[ $nets != all ]] || nets=$all
[[ -n $nets ]] || fail "--net needs a network. Use all, or some of: $all." 2
for net in $nets; do
  [[ " $all $photos " == *" $net "* ]] || fail "unknown network $net. Use all, or some of: $all $photos." 2
  [[ " $photos " != *" $net "* || $chosen != *tensorflow* ]] || fail "only PyTorch has $net. Pass --peers pytorch." 2
done
if [[ -z $precisions ]]; then
  precisions='fp32 bf16'
  [[ $nets != *' '* ]] && grep -q avx512bw /proc/cpuinfo || precisions=fp32  # oneDNN has no bf16 below AVX-512
fi

[[ -x $build/bench_step ]] || fail "$build/bench_step is missing. Build it: cmake --preset release && cmake --build --preset release"
python=$venv/bin/python
runners=(lockstep)
for peer in $chosen; do
  case $peer in
    pytorch | pytorch-compile) module=torch ;;
    tensorflow | tensorflow-xla) module=tensorflow ;;
    *) fail "unknown peer $peer. See --help." 2 ;;
  esac
  if [[ -x $python ]] && "$python" -c "import importlib.util as u, sys; sys.exit(u.find_spec('$module') is None)"; then
    runners+=("$peer")
  else
    echo "$me: $venv has no module $module, so $peer is skipped. See bench/peers/README.md, or set LOCKSTEP_PEERS." >&2
  fi
done

results=$(mktemp -d -t lockstep-peers.XXXXXX)
trap 'rm -rf "$results"' EXIT

# Writes noise in the format of CIFAR-10, because the programs generate no samples of 32x32x3 themselves.
make_noise() {
  local folder=$results/noise number
  mkdir "$folder"
  python3 -c '
import os
noise = os.urandom(1 << 20)
for i in range(10000):
    at = i * 997 % (len(noise) - 3072)
    os.write(1, bytes([i % 10]) + noise[at:at + 3072])' >"$folder/test_batch.bin"
  for number in 1 2 3 4 5; do ln "$folder/test_batch.bin" "$folder/data_batch_$number.bin"; done
  seq 10 >"$folder/batches.meta.txt"
}

# Writes noise as arrays of photos' size, for networks that PyTorch takes from torchvision.
make_photos() {
  mkdir "$results/photos"
  "$python" -c '
import sys, h5py, numpy
random = numpy.random.RandomState(1)
for part, count in (("train", 64), ("test", 16)):
    with h5py.File(f"{sys.argv[1]}/{part}.h5", "w") as file:
        file["images"] = random.randint(0, 256, (count, 224, 224, 3)).astype("u1")
        file["labels"] = numpy.arange(count) % 10' "$results/photos"
}

run() {  # RUNNER NETWORK PRECISION: prints one line of JSON
  local data own_batch own_steps own_warmup
  read -r data own_batch own_steps own_warmup < <(awk -v net="$2" '$1 == net { print $2, $3, $4, $5 }' <<<"$settings")
  local shared=(--batch "${batch:-$own_batch}" --threads 1 --steps "${steps:-$own_steps}" --warmup "${warmup:-$own_warmup}")
  local set=(--dataset "$data") all_of=(--net "$2" --ranks "$ranks" "${shared[@]}" --dtype "$3")
  if [[ $data == noise ]]; then set=(--dataset cifar10_32 --data "$results/noise"); fi
  if [[ $data == photos ]]; then set=(--dataset hdf5 --data "$results/photos"); fi
  case $1 in
    lockstep)
      mpirun -np "$ranks" "$build/bench_step" --json --no-bare --model "$2" "${set[@]}" "${shared[@]}" --precision "$3" ;;
    pytorch) "$python" "$here/pytorch_ddp.py" "${all_of[@]}" ;;
    pytorch-compile) "$python" "$here/pytorch_ddp.py" "${all_of[@]}" --compile ;;
    tensorflow) "$python" "$here/tensorflow_mirrored.py" "${all_of[@]}" ;;
    tensorflow-xla) "$python" "$here/tensorflow_mirrored.py" "${all_of[@]}" --xla ;;
  esac </dev/null
}

value() { sed -n "s/.*\"$1\": *\([0-9.]*\).*/\1/p"; }
median() { sort -n "$1" | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

mpi_variables "$ranks" "$(usable_cores)"
[[ " $nets " != *' resnet'* && " $nets " != *' airbench94 '* ]] || make_noise
for net in $nets; do
  [[ -d $results/photos || " $photos " != *" $net "* ]] || make_photos
done
for ((round = 1; round <= rounds; round++)); do
  for net in $nets; do
    for precision in $precisions; do
      for runner in "${runners[@]}"; do
        line=$(run "$runner" "$net" "$precision" 2>"$results/stderr" | grep '"images_per_s"' | tail -n 1) || {
          tail -n 15 "$results/stderr" >&2
          fail "$runner $net $precision printed no images_per_s. Its last lines are above."
        }
        rate=$(value images_per_s <<<"$line") parameters=$(value parameters <<<"$line")
        if [[ $runner == lockstep ]]; then trained=$parameters; fi
        [[ $parameters == "$trained" ]] ||
          fail "$net has $parameters parameters under $runner, but $trained under Lockstep. Make the networks equal."
        echo "$rate" >>"$results/$runner.$net.$precision"
        echo "$me: round $round of $rounds: $net $precision, $runner: $rate samples/s" >&2
      done
    done
  done
done

echo "images/s (reuters: sequences/s), median of $rounds runs in turns; $ranks ranks x 1 thread${batch:+, $batch samples each}"
printf '%-11s %-6s %-15s %10s %22s %11s\n' network type program median 'lowest .. highest' 'lockstep /'
for net in $nets; do
  for precision in $precisions; do
    ours=$(median "$results/lockstep.$net.$precision")
    for runner in "${runners[@]}"; do
      file=$results/$runner.$net.$precision
      theirs=$(median "$file")
      printf '%-11s %-6s %-15s %10.4g %22s %10.2fx\n' "$net" "$precision" "$runner" "$theirs" \
        "$(sort -n "$file" | awk 'NR == 1 { low = $1 } END { printf "%.4g .. %.4g", low, $1 }')" \
        "$(awk -v a="$ours" -v b="$theirs" 'BEGIN { print a / b }')"
    done
  done
done
