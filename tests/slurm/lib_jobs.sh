# Functions for the tests of slurm/train_cifar.sbatch (sourced after lib_cluster.sh): a folder on a private cluster, and
# conditions to wait for.
# shellcheck shell=bash

skip() { echo "skipped: $1"; exit 77; }
fail() {
  echo "FAILED: $1" >&2
  tail -n 40 "$folder"/*.log >&2
  exit 1
}

jobs_begin() {  # starts the cluster and enters $folder; skips the test if the cluster cannot start
  local reason
  reason=$(cluster_missing)
  [[ -z $reason ]] || skip "$reason"
  folder=$(mktemp -d -t lockstep-jobs.XXXXXX)
  trap 'cluster_stop; rm -rf "$folder"' EXIT
  cluster_start || fail "the cluster did not start"
  cd "$folder" || exit 1
}

# Prints the step of a job's newest checkpoint, 0 without one.
newest() {
  local file
  file=$(find "runs/$1/checkpoints" -name 'step-*.h5' 2>/dev/null | sort | tail -n 1)
  file=${file##*step-} file=${file%.h5}
  echo $((10#${file:-0}))
}

wait_until() {  # WHAT SECONDS COMMAND...: repeats the command until it succeeds
  local what=$1 tries=$(($2 * 5))
  shift 2
  while ! "$@"; do
    tries=$((tries - 1))
    [[ $tries -gt 0 ]] || fail "this did not happen in time: $what"
    sleep 0.2
  done
}
has_ended() { [[ -z $(squeue --noheader --jobs="$1" 2>/dev/null) ]]; }
has_begun() { grep -q "start $2," "$1"-*.log 2>/dev/null; }
has_reached() { [[ $(newest "$1") -ge $2 ]]; }
is_waiting() { [[ $(squeue --noheader --format=%T --jobs="$1") == PENDING ]]; }
