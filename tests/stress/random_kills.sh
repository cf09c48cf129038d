#!/usr/bin/env bash
# Kills or stops a random rank at a random instant, again and again, and looks how the runs end. Not a test of the suite.
usage() {
  cat <<'TEXT'
usage: tests/stress/random_kills.sh BUILD_FOLDER [RUNS [SEED]]

Starts RUNS (default 200) small runs of 2 to 4 ranks, sends SIGKILL, SIGSEGV or SIGSTOP to one rank at a random instant of
start-up, training, evaluation or checkpointing, and expects that the run ends within 15 s, that one line names the rank
and the cause (before the ranks know each other the launcher's own words will do), that no process is left and that the
newest checkpoint is whole. Prints what it missed, then a table. SEED repeats the choices.
TEXT
}
if [[ ${1:-} == --help || $# == 0 ]]; then usage; exit 0; fi
# shellcheck source=SCRIPTDIR/../../scripts/common.sh
. "$(dirname "$0")/../../scripts/common.sh"
mpi_variables 4 1 2>/dev/null
# shellcheck source=SCRIPTDIR/../apps/lib.sh
. "$(dirname "$0")/../apps/lib.sh"
runs=${2:-200}
RANDOM=${3:-$$}
limit=120
most=15  # seconds from the signal to the end of the run
# The launcher's own words count where the ranks do not know each other yet.
export OMPI_MCA_orte_execute_quiet=0 PRTE_MCA_prte_execute_quiet=0
signals=(KILL STOP SEGV)
reducers=(auto tree halving_doubling mpi shared)
progress=(auto wait poll thread)
declare -A tried named launcher_said silent late damaged left worst

milliseconds() { echo $(($(date +%s%N) / 1000000)); }
count() { local -n table=$1; table[$2]=$((${table[$2]:-0} + 1)); }
miss() { echo "missed: $1"; sed 's/^/    /' "$folder/raw" | tail -n 15; failures=$((failures + 1)); }
chance() { sleep "$(printf '0.%03d' $((RANDOM % $1)))"; }  # MILLISECONDS, below 1000

one_run() {  # WHEN
  local when=$1 count=$((2 + RANDOM % 3)) options=() rank signal pid pids p began_ms took what
  rank=$((RANDOM % count))
  signal=${signals[RANDOM % 3]}
  rm -rf "$folder/run"
  options=(--global-batch $((4 * count)) --steps 100000 --run "$folder/run" --keep 0
    --reducer "${reducers[RANDOM % 5]}" --progress "${progress[RANDOM % 4]}")
  case $when in
    evaluation) options+=(--eval-every 1) ;;
    checkpoint) options+=(--checkpoint-every 1) ;;
  esac
  what="SIG$signal to rank $rank of $count in $when, ${options[*]: -6}"
  start "$count" "${options[@]}"
  if [[ $when == start-up ]]; then
    until pid=$(pid_of_rank "$rank") || ended 2>/dev/null; do :; done
    chance 400
  else
    until has_done 1 || ended 2>/dev/null; do sleep 0.02; done
    pid=$(pid_of_rank "$rank")
    chance 900
  fi
  pids=$(for ((p = 0; p < count; p++)); do pid_of_rank $p; done)
  began_ms=$(milliseconds)
  if ! kill -"$signal" "$pid" 2>/dev/null; then
    collect
    miss "$what: ended before"
    return
  fi
  count tried "$when"
  collect
  took=$(($(milliseconds) - began_ms))
  ((took <= ${worst[$when]:-0})) || worst[$when]=$took
  if ((took > most * 1000)); then count late "$when"; miss "$what: ended after $took ms"; fi
  if [[ $code == 0 || $code == 75 ]]; then miss "$what: exit code $code"; fi
  if grep -qE "^train_cifar: rank $rank \(pid $pid, host .* (died|was stopped)" "$folder/raw"; then
    count named "$when"
  elif [[ $when == start-up && $signal != STOP ]] && grep -qE "process rank $rank .*exited on signal" "$folder/raw"; then
    count launcher_said "$when"
  else
    count silent "$when"; miss "$what: nobody names it"
  fi
  sleep 0.2
  for p in $pids; do
    if kill -0 "$p" 2>/dev/null; then sleep 3; fi
    if kill -0 "$p" 2>/dev/null; then count left "$when"; miss "$what: process $p is still there"; fi
  done
  run "$build/train_cifar" "${small[@]}" --global-batch $((4 * count)) --shards "$count" --check --run "$folder/run"
  if [[ $code != 0 ]] || grep -q '^warning' "$folder/out"; then
    count damaged "$when"; miss "$what: the newest checkpoint is not whole"
  fi
}

phases=(start-up training evaluation checkpoint)
for ((i = 0; i < runs; i++)); do one_run "${phases[i % 4]}"; done
printf '%-12s %6s %6s %9s %7s %6s %8s %6s %10s\n' phase runs named launcher silent late damaged left 'longest/s'
for when in "${phases[@]}"; do
  printf '%-12s %6d %6d %9d %7d %6d %8d %6d %10s\n' "$when" "${tried[$when]:-0}" "${named[$when]:-0}" \
    "${launcher_said[$when]:-0}" "${silent[$when]:-0}" "${late[$when]:-0}" "${damaged[$when]:-0}" "${left[$when]:-0}" \
    "$(printf '%d.%03d' $((${worst[$when]:-0} / 1000)) $((${worst[$when]:-0} % 1000)))"
done
exit $((failures > 0))
