#!/usr/bin/env bash
# Lockstep and its peers on this machine, in turns (A B C A B C ...), on the same network, global batch and cores:
# medians and ratios as a table.
set -euo pipefail
# shellcheck source=SCRIPTDIR/../../scripts/common.sh
. "$(dirname "$0")/../../scripts/common.sh"
here=$root/bench/peers
venv=${LOCKSTEP_PEERS:-$root/build-peers}
rounds=3 steps=40 warmup=5 ranks=2 batch=64 precisions='fp32 bf16' chosen='pytorch tensorflow'

usage() {
  cat <<HELP
usage: bench/peers/compare.sh [options]

  --rounds N       each runs N times, in turns ($rounds)
  --steps N        timed steps of each run ($steps); --warmup N before them ($warmup)
  --ranks N        processes or replicas, one thread each ($ranks)
  --batch N        images per rank and step ($batch)
  --precision P    fp32 or bf16 (both)
  --peers LIST     of: pytorch tensorflow ("$chosen")

Environment:
  LOCKSTEP_PEERS   virtual environment with PyTorch and TensorFlow ($venv)
  LOCKSTEP_BUILD   build folder with bench_step ($build)
bench/peers/README.md says how to get both peers.
HELP
}

while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --rounds | --steps | --warmup | --ranks | --batch)
      [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || fail "$1 needs a positive number." 2
      declare "${1#--}=$2" ;;
    --precision)
      [[ ${2:-} == fp32 || ${2:-} == bf16 ]] || fail "$1 is fp32 or bf16." 2
      precisions=$2 ;;
    --peers) chosen=${2:-} ;;
    *) fail "unknown option $1: see --help." 2 ;;
  esac
  shift 2
done

[[ -x $build/bench_step ]] || fail "$build/bench_step is missing: build it (cmake --preset release && cmake --build --preset release)."
python=$venv/bin/python
runners=(lockstep)
for peer in $chosen; do
  case $peer in
    pytorch) module=torch ;;
    tensorflow) module=tensorflow ;;
    *) fail "unknown peer $peer: use pytorch, tensorflow." 2 ;;
  esac
  if [[ -x $python ]] && "$python" -c "import importlib.util as u, sys; sys.exit(u.find_spec('$module') is None)"; then
    runners+=("$peer")
  else
    echo "$me: $peer is left out: no module $module in $venv. To get it: see bench/peers/README.md, or set LOCKSTEP_PEERS." >&2
  fi
done

run() {  # runner, precision -> one line of JSON
  local shared=(--batch "$batch" --threads 1 --steps "$steps" --warmup "$warmup")
  case $1 in
    lockstep) mpirun -np "$ranks" "$build/bench_step" --json "${shared[@]}" --precision "$2" ;;
    pytorch) "$python" "$here/pytorch_ddp.py" --ranks "$ranks" "${shared[@]}" --dtype "$2" ;;
    tensorflow) "$python" "$here/tensorflow_mirrored.py" --ranks "$ranks" "${shared[@]}" --dtype "$2" ;;
  esac </dev/null
}

median() { sort -n | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

mpi_variables "$ranks" "$(usable_cores)"
results=$(mktemp -d -t lockstep-peers.XXXXXX)
trap 'rm -rf "$results"' EXIT
for ((round = 1; round <= rounds; round++)); do
  for precision in $precisions; do
    for runner in "${runners[@]}"; do
      line=$(run "$runner" "$precision" 2>"$results/stderr" | grep '"images_per_s"' | tail -n 1) || {
        tail -n 15 "$results/stderr" >&2
        fail "$runner $precision failed: no line with images_per_s (its last words: above)."
      }
      rate=$(sed -n 's/.*"images_per_s": *\([0-9.]*\).*/\1/p' <<<"$line")
      echo "$rate" >>"$results/$runner.$precision"
      echo "$me: round $round of $rounds: $runner $precision $rate images/s" >&2
    done
  done
done

echo "images/s, median of $rounds runs of $steps steps in turns; $ranks ranks x 1 thread, global batch $((ranks * batch))"
printf '%-12s %-6s %10s %22s %10s\n' program type median 'lowest .. highest' 'lockstep /'
for precision in $precisions; do
  ours=$(median <"$results/lockstep.$precision")
  for runner in "${runners[@]}"; do
    theirs=$(median <"$results/$runner.$precision")
    printf '%-12s %-6s %10.0f %22s %9.2fx\n' "$runner" "$precision" "$theirs" \
      "$(sort -n "$results/$runner.$precision" | awk 'NR == 1 { low = $1 } END { printf "%.0f .. %.0f", low, $1 }')" \
      "$(awk -v a="$ours" -v b="$theirs" 'BEGIN { print a / b }')"
  done
done
