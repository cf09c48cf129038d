#!/usr/bin/env bash
# slurm/train_cifar.sbatch with requests that come before the ranks are ready, ranks that miss a request, and job arrays.
# usage: requests.sh BUILD_FOLDER
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=SCRIPTDIR/lib_cluster.sh
. "$here/lib_cluster.sh"
# shellcheck source=SCRIPTDIR/lib_jobs.sh
. "$here/lib_jobs.sh"
build=$1
# shellcheck disable=SC2034  # used by lib_cluster.sh
cluster_cpus=8
jobs_begin

submit() {  # JOBNAME BUILD_FOLDER SBATCH_OPTION...: prints the job number
  local name=$1 programs=$2
  shift 2
  LOCKSTEP_BUILD=$programs sbatch --parsable --ntasks=1 --job-name="$name" "$@" "$here/../../slurm/train_cifar.sbatch" -- \
    --threads 1 --steps 1000000 --batch 8 --eval-every 0 --summary-every 0
}
program() {  # NAME: makes a train_cifar of the script on stdin
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
program tells <<'END'
[[ $1 != --help ]] || { echo "--$2"; exit; }
echo "told: $*"
END

# All jobs start at once, because they wait most of the time.
dies=$(submit dies "$folder/first_dies")
deaf=$(submit deaf "$folder/deaf")
fails=$(submit fails "$folder/fails")
early=$(submit early "$build")  # the real program; its request comes as soon as the job has started
await_line early 'start 1,'
request "$early"
for job in dies deaf fails; do
  await_line $job '^up'
  request "${!job}"
done

# Here the signal kills: the stopped program does not handle it and dies when it continues.
await_line dies 'SIGUSR1'
kill -CONT "$(pgrep -f "^/bin/bash $folder/first_dies/train_cifar")"

# Each task of an array is a separate run.
submit array "$folder/tells" --array=3,4 >/dev/null
# Another program, and one rank per GPU by default. This cluster has no GPU, so the test sets SLURM's variable.
mkdir other
cp tells/train_cifar other/train_mnist
LOCKSTEP_PROGRAM=train_mnist submit other "$folder/other" >/dev/null
SLURM_GPUS_ON_NODE=3 LOCKSTEP_BUILD=$folder/tells sbatch --parsable --job-name=gpus "$here/../../slurm/train_cifar.sbatch" -- >/dev/null
# A job without a name has a run of its own. A program in an image is started through apptainer, here a stand-in.
alone=$(LOCKSTEP_BUILD=$folder/tells sbatch --parsable "$here/../../slurm/train_cifar.sbatch" --)
# Two such jobs wait for each other neither. Options of a file count.
echo 'no-run = true' >keep_nothing.toml
for _ in 1 2; do
  waits=$(LOCKSTEP_BUILD=$folder/first_dies sbatch --hold --parsable "$here/../../slurm/train_cifar.sbatch" --)
  [[ $(scontrol show job "$waits") == *'Dependency=(null)'* ]] || fail "a job without a name has a dependency"
  scancel "$waits"
done
LOCKSTEP_BUILD=$folder/tells sbatch --parsable --job-name=nothing "$here/../../slurm/train_cifar.sbatch" -- --config keep_nothing.toml >/dev/null
# A sweep as an array: one task per run.
printf '%s\n' '[options]' 'steps = 3' '[sweep]' 'lr = [0.1, 0.2]' '[slurm]' 'time = "1:00:00"' >rates.toml
LOCKSTEP_BUILD=$folder/tells "$here/../../scripts/sweep_runs.py" --slurm rates.toml >/dev/null || fail "the sweep was not submitted"
mkdir bin
printf '#!/bin/sh\necho "image: $*"\n' >bin/apptainer
chmod +x bin/apptainer
PATH=$folder/bin:$PATH LOCKSTEP_IMAGE=lockstep.sif sbatch --parsable --job-name=image "$here/../../slurm/train_cifar.sbatch" -- >/dev/null
# A run without progress is not requeued forever: its sixth start is the last.
program stops <<'END'
exit 75
END
SLURM_RESTART_COUNT=5 submit stops "$folder/stops" >/dev/null
for task in 3 4; do await_line array "^told: .*--run $folder/runs/array-$task"; done
await_line other "^told: "
await_line gpus 'start 1, 3 ranks of'
await_line train_cifar "^told: .*--run $folder/runs/train_cifar-$alone\$"
for task in 1 2; do
  wait_until "task $task of the sweep" 60 grep -qs "^told: --run=runs/rates/lr=0.$task --steps=3 --lr=0.$task" runs/rates/task-$task.log
done
await_line nothing '^told: .*toml'
! logged nothing '--run' || fail "no-run of a config file is ignored"
await_line image "^image: exec .*--pwd $folder lockstep.sif train_cifar .*--run $folder/runs/image"
await_line stops 'start 6.* time'
! logged stops 'queue' || fail "a run without progress was requeued again"

# The script requeues a job if the request was missed (deaf) or killed the program (dies). It does not
# requeue a failed run (fails).
for job in dies deaf; do
  await_line $job 'start 2,'
  await_line $job 'end, exit code 0'
done
logged dies 'before the ranks' || fail "the death before the ranks could answer was not recognised"
await_line fails 'end, exit code 1'
! logged fails 'start 2,' || fail "a failure was requeued"
await_line early 'start 2,'
echo "early and repeated requests, failures and arrays are handled as expected"
