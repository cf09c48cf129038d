#!/usr/bin/env bash
# Requests that come too early for the ranks, deaf ranks, and arrays: what slurm/train_cifar.sbatch makes of them.
# usage: requests.sh BUILD_FOLDER
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=SCRIPTDIR/lib_cluster.sh
. "$here/lib_cluster.sh"
# shellcheck source=SCRIPTDIR/lib_jobs.sh
. "$here/lib_jobs.sh"
build=$1
# shellcheck disable=SC2034  # of lib_cluster.sh
cluster_cpus=8
jobs_begin

submit() {  # NAME, BUILD_FOLDER, sbatch's options -> number of the job
  local name=$1 programs=$2
  shift 2
  LOCKSTEP_BUILD=$programs sbatch --parsable --ntasks=1 --job-name="$name" "$@" "$here/../../slurm/train_cifar.sbatch" -- \
    --threads 1 --steps 1000000 --batch 8 --eval-every 0 --summary-every 0
}
program() {  # NAME: a train_cifar that is the script on stdin
  mkdir "$1"
  { echo '#!/bin/bash'; cat; } >"$1/train_cifar"
  chmod +x "$1/train_cifar"
}
logged() { grep -qE -- "$2" "$1"-*.log 2>/dev/null; }  # JOBNAME PATTERN
await_line() { wait_until "'$2' in the log of $1" 60 logged "$1" "$2"; }
request() { scancel --batch --signal=USR1 "$1"; }

program first_dies <<'END'
[[ ! -e once ]] || exit 0
touch once
echo up
kill -STOP $$
END
program deaf <<'END'
[[ ! -e heard ]] || exit 0
trap 'touch heard; echo answered' USR1
echo up
until [[ -e heard ]]; do sleep 0.1; done   # the first request
rm heard
until [[ -e heard ]]; do sleep 0.1; done   # the same, repeated
exit 75
END
program fails <<'END'
trap 'exit 1' USR1
echo up
while :; do sleep 0.1; done
END
program quits <<'END'
trap 'echo "stopped on request after step 3: the same command resumes there" >&2; exit 1' USR1
[[ ! -e again ]] || exit 0
touch again
echo up
while :; do sleep 0.1; done
END
program tells <<'END'
echo "told: $*"
END

# They wait for most of their time, so all begin at once.
dies=$(submit dies "$folder/first_dies")
deaf=$(submit deaf "$folder/deaf")
quits=$(submit quits "$folder/quits" --error="$folder/quits.err")
fails=$(submit fails "$folder/fails")
early=$(submit early "$build")  # the real program, asked as soon as its job has begun
await_line early 'start 1,'
request "$early"
for job in dies deaf quits fails; do
  await_line $job '^up'
  request "${!job}"
done

# The signal that was to ask for a checkpoint kills: the stopped program dies of it when it wakes up.
await_line dies 'SIGUSR1'
kill -CONT "$(pgrep -f "^/bin/bash $folder/first_dies/train_cifar")"

# The tasks of an array are runs of their own.
submit array "$folder/tells" --array=3,4 >/dev/null
# Another program, and one rank for each GPU by default (this cluster has none: SLURM's word for it).
mkdir other
cp tells/train_cifar other/train_mnist
LOCKSTEP_PROGRAM=train_mnist submit other "$folder/other" >/dev/null
SLURM_GPUS_ON_NODE=3 LOCKSTEP_BUILD=$folder/tells sbatch --parsable --job-name=gpus "$here/../../slurm/train_cifar.sbatch" -- >/dev/null
# A run that never gets anywhere does not go in circles: its sixth start is the last.
program stops <<'END'
exit 75
END
SLURM_RESTART_COUNT=5 submit stops "$folder/stops" >/dev/null
for task in 3 4; do await_line array "^told: .*--checkpoint-dir $folder/runs/array-$task/checkpoints --log-dir $folder/runs/array-$task/logs"; done
await_line other "^told: "
await_line gpus 'start 1, 3 ranks of'
await_line stops 'start 6.* time'
! logged stops 'queue' || fail "a run without progress was requeued for ever"

# A request may be lost (deaf), kill (dies), or be answered while the launcher's exit code hides the answer (quits): these go
# back into the queue. A failure stays one.
for job in dies deaf quits; do
  await_line $job 'start 2,'
  await_line $job 'end, exit code 0'
done
logged dies 'before the ranks' || fail "an early death was not recognised"
await_line fails 'end, exit code 1'
! logged fails 'start 2,' || fail "a failure was requeued"
await_line early 'start 2,'
echo "early and repeated requests, failures and arrays: as they should be"
