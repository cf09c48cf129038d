#!/usr/bin/env bash
# Compares Lockstep with other trainers on this machine: the same network, global batch and cores, in turns
# (A B C A B C ...). Prints tables of medians. A peer that is not installed or fails is left out.
set -euo pipefail
# shellcheck source=SCRIPTDIR/../../scripts/common.sh
. "$(dirname "$0")/../../scripts/common.sh"
here=$root/bench/peers
peers_folder=${LOCKSTEP_PEERS:-$root/build-peers}
# Peers with several processes or replicas have one thread in each. The others are one process of as many threads.
#      peer                    environment driver          processes option
peers='pytorch                 pytorch     pytorch_ddp.py  ranks
       pytorch-compile         pytorch     pytorch_ddp.py  ranks     --compile
       pytorch-threads         pytorch     pytorch_ddp.py  one
       pytorch-compile-threads pytorch     pytorch_ddp.py  one       --compile
       ipex                    ipex        pytorch_ddp.py  one       --ipex
       tensorflow              keras       keras_step.py   ranks
       tensorflow-xla          keras       keras_step.py   ranks     --xla
       keras                   keras       keras_step.py   one
       jax                     keras       keras_step.py   one       --jax'
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
rounds=3 ranks=2 batch='' steps='' warmup='' precisions='' chosen='pytorch tensorflow' nets=tutorial runs=''
all=$(awk '$2 != "photos" { printf "%s%s", sep, $1; sep = " " }' <<<"$settings")
photos=$(awk '$2 == "photos" { printf "%s%s", sep, $1; sep = " " }' <<<"$settings")
all_peers=$(awk '{ printf "%s%s", sep, $1; sep = " " }' <<<"$peers")

usage() {
  cat <<HELP
usage: bench/peers/compare.sh [options]

  --net LIST       networks ("$nets"); all: $all;
                   photos: $photos
  --rounds N       runs of each program, in turns ($rounds)
  --steps N        timed steps of each run (depends on the network)
  --warmup N       steps before the timed ones (depends on the network)
  --ranks N        processes or replicas of one thread, or threads of one process ($ranks)
  --batch N        samples per rank and step (the network's recipe)
  --precision P    fp32, bf16 or both (both; fp32 for several networks or without AVX-512)
  --peers LIST     peers ("$chosen"), or all; compiling takes a minute or more:
                   $all_peers
  --json FILE      file for all runs, one line of JSON each

Environment:
  LOCKSTEP_PEERS   folder of virtual environments, which bench/peers/install.sh makes ($peers_folder)
  LOCKSTEP_BUILD   build folder with bench_step ($build)
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
    --json)
      runs=${2:-}
      { : >"$runs"; } 2>/dev/null || fail "cannot write the file '$runs' of --json. Pass a path in an existing folder." 2 ;;
    *) fail "unknown option $1. See --help." 2 ;;
  esac
  shift 2
done
nets=" $nets "
nets=${nets/ all / $all }
read -r nets <<<"${nets/ photos / $photos }"
[[ -n $nets ]] || fail "--net needs a network. Use all, photos, or some of: $all $photos." 2
for net in $nets; do
  [[ " $all $photos " == *" $net "* ]] || fail "unknown network $net. Use all, photos, or some of: $all $photos." 2
done
if [[ -z $precisions ]]; then
  precisions='fp32 bf16'
  [[ $nets != *' '* ]] && grep -q avx512bw /proc/cpuinfo || precisions=fp32  # oneDNN has no bf16 below AVX-512
fi

[[ -x $build/bench_step ]] || fail "$build/bench_step is missing. Build it: cmake --preset release && cmake --build --preset release"
if [[ $chosen == all ]]; then chosen=$all_peers; fi
found=()
for peer in $chosen; do
  environment=$(awk -v peer="$peer" '$1 == peer { print $2 }' <<<"$peers")
  [[ -n $environment ]] || fail "unknown peer $peer. See --help." 2
  if [[ -x $peers_folder/$environment/bin/python ]]; then
    found+=("$peer")
    python=$peers_folder/$environment/bin/python
  else
    echo "$me: $peer is left out: there is no environment $peers_folder/$environment. Run bench/peers/install.sh." >&2
  fi
done
[[ ${#found[@]} -gt 0 ]] || fail "no peer is left. Run bench/peers/install.sh, or set LOCKSTEP_PEERS."

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

run() {  # PROGRAM NETWORK PRECISION: prints one line of JSON
  local data samples steps_of warmup_of environment driver processes option
  read -r data samples steps_of warmup_of < <(awk -v net="$2" '$1 == net { print $2, $3, $4, $5 }' <<<"$settings")
  samples=${batch:-$samples}
  local timing=(--steps "${steps:-$steps_of}" --warmup "${warmup:-$warmup_of}") set=(--dataset "$data")
  if [[ $data == noise ]]; then set=(--dataset cifar10_32 --data "$results/noise"); fi
  if [[ $data == photos ]]; then set=(--dataset hdf5 --data "$results/photos"); fi
  if [[ $1 == lockstep ]]; then
    mpirun -np "$ranks" "$build/bench_step" --json --no-bare --model "$2" "${set[@]}" --precision "$3" \
      --batch "$samples" --threads 1 "${timing[@]}" </dev/null
    return
  fi
  read -r environment driver processes option < <(awk -v peer="$1" '$1 == peer { print $2, $3, $4, $5 }' <<<"$peers")
  local split=(--ranks "$ranks" --batch "$samples" --threads 1)
  if [[ $processes == one ]]; then split=(--ranks 1 --batch $((samples * ranks)) --threads "$ranks"); fi
  "$peers_folder/$environment/bin/python" "$here/$driver" --net "$2" --dtype "$3" "${split[@]}" "${timing[@]}" \
    ${option:+"$option"} </dev/null
}

value() { sed -n "s/.*\"$1\": *\([0-9.]*\).*/\1/p"; }
median() { sort -n "$1" | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

leave_out() {  # PROGRAM.NETWORK.PRECISION REASON
  rm -f "$results/$1"
  touch "$results/failed.$1"
  echo "$me: ${1//./ } is left out: $2" >&2
}

measure() {  # ROUND PROGRAM NETWORK PRECISION: one run, unless an earlier one failed
  local line rate parameters
  [[ ! -e $results/failed.$2.$3.$4 ]] || return 0
  if ! line=$(run "$2" "$3" "$4" 2>"$results/stderr" | grep '"images_per_s"' | tail -n 1); then
    if [[ $2 == lockstep ]]; then
      tail -n 15 "$results/stderr" >&2
      fail "Lockstep printed no images_per_s for $3 in $4. Its last lines are above."
    fi
    leave_out "$2.$3.$4" "$(grep -v '^[[:space:]]*$' "$results/stderr" | tail -n 1 | cut -c1-200)"
    return
  fi
  rate=$(value images_per_s <<<"$line") parameters=$(value parameters <<<"$line")
  if [[ $2 == lockstep ]]; then trained=$parameters; fi
  if [[ $parameters != "$trained" ]]; then
    leave_out "$2.$3.$4" "its network has $parameters parameters, but Lockstep's has $trained."
    return
  fi
  echo "$rate" >>"$results/$2.$3.$4"
  if [[ -n $runs ]]; then
    echo "{\"round\": $1, \"program\": \"$2\", \"network\": \"$3\", \"type\": \"$4\", ${line#\{}" >>"$runs"
  fi
  echo "$me: round $1 of $rounds: $3 $4, $2: $rate samples/s" >&2
}

# Prints a Markdown table of medians, with a row for each program and a column for each network.
table() {  # PRECISION
  local program net peer best ratios="Lockstep / the best peer"
  echo "| samples/s, $1 | ${nets// / | } |"
  sed 's/[^ ]*/---/g; s/ /|/g; s/.*/|---|&|/' <<<"$nets"
  for program in lockstep "${found[@]}"; do
    printf '| %s |' "$program"
    for net in $nets; do
      if [[ -e $results/$program.$net.$1 ]]; then printf ' %.4g |' "$(median "$results/$program.$net.$1")"; else printf ' - |'; fi
    done
    echo
  done
  for net in $nets; do
    best=$(for peer in "${found[@]}"; do
      if [[ -e $results/$peer.$net.$1 ]]; then echo "$(median "$results/$peer.$net.$1") $peer"; fi
    done | sort -g | tail -n 1)
    ratios+=" | $(awk -v ours="$(median "$results/lockstep.$net.$1")" '{ if (NF) printf "%.2f %s", ours / $1, $2; else print "-" }' <<<"$best")"
  done
  echo "| $ratios |"
}

mpi_variables "$ranks" "$(usable_cores)"
if [[ " $nets " == *' resnet'* || " $nets " == *' airbench94 '* ]]; then make_noise; fi
for net in $nets; do
  if [[ ! -d $results/photos && " $photos " == *" $net "* ]]; then make_photos; fi
done
for ((round = 1; round <= rounds; round++)); do
  for net in $nets; do
    for precision in $precisions; do
      for program in lockstep "${found[@]}"; do measure "$round" "$program" "$net" "$precision"; done
    done
  done
done

echo "Medians of $rounds runs in turns, on $ranks cores. reuters: sequences; all others: images."
for precision in $precisions; do
  echo
  table "$precision" | column -t -s '|' -o '|'
done
for peer in "${found[@]}"; do
  if compgen -G "$results/$peer.*" >/dev/null; then exit 0; fi
done
fail "no peer is left. The lines above say why."
