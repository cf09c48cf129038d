#!/usr/bin/env bash
# The ends of a job of slurm/train_cifar.sbatch: scancel and a time limit without a warning, on one node and on two, with
# lockstep_run and with mpirun alone. Each of them keeps all steps, and the same command resumes after the last one. A job
# that has lost the node of its script is requeued.
# usage: ends.sh BUILD_FOLDER
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=SCRIPTDIR/lib_cluster.sh
. "$here/lib_cluster.sh"
# shellcheck source=SCRIPTDIR/lib_jobs.sh
. "$here/lib_jobs.sh"
build=$1
# shellcheck disable=SC2034  # used by lib_cluster.sh
cluster_cpus=12 cluster_nodes=2
unset OMPI_MCA_btl  # the tests exclude TCP, which two nodes need
jobs_begin
trap 'cluster_stop; rm -rf "$folder" /dev/shm/lockstep-run-"$(id -u)-test$$"' EXIT

submit() {  # JOBNAME BUILD_FOLDER STEPS SBATCH_OPTION...: prints the job number
  local name=$1 programs=$2 steps=$3
  shift 3
  LOCKSTEP_BUILD=$programs sbatch --parsable --ntasks=2 --job-name="$name" "$@" "$here/../../slurm/train_cifar.sbatch" -- \
    --model resnet_small --threads 1 --steps "$steps" --batch 8 --eval-every 0 --summary-every 0 --log-every 1
}
last_step() { sed -n 's/.*"kind":"train".*"step":\([0-9]*\)[,}].*/\1/p' "runs/$1/metrics.jsonl" 2>/dev/null | tail -n 1; }  # JOBNAME
has_trained() { [[ $(last_step "$1") -ge $2 ]]; }  # JOBNAME STEP
ended_as() { scontrol show job "$1" | tr -s ' \n' '  ' | grep -q "JobState=$2 .*ExitCode=$3:0 "; }  # JOB STATE CODE
descendants() {  # PID: prints all processes below it
  local child
  for child in $(pgrep -P "$1"); do
    echo "$child"
    descendants "$child"
  done
}
keeps_all() {  # JOBNAME: its newest checkpoint has all steps
  [[ $(newest "$1") == "$(last_step "$1")" ]] || fail "$1 lost steps: $(last_step "$1") are done, and $(newest "$1") are saved"
}

# mpirun without lockstep_run starts this program. It needs longer for a checkpoint than mpirun waits after SIGTERM. mpirun
# ends all ranks when the first one ends, so that one waits for the others.
mkdir slow fails bin
cat >slow/train_cifar <<'END'
#!/bin/bash
size=$OMPI_COMM_WORLD_SIZE rank=$OMPI_COMM_WORLD_RANK
save() {
  trap '' TERM USR1
  sleep 3
  touch "saved-$size-$rank"
  for ((i = 0; i < size; i++)); do until [[ -e saved-$size-$i ]]; do sleep 0.1; done; done
  exit 75
}
trap save TERM USR1
touch "up-$size-$rank"
while :; do sleep 0.1; done
END
# This one leaves a state in memory, as ranks that are killed do.
cat >fails/train_cifar <<END
#!/bin/bash
mkdir -p /dev/shm/lockstep-run-$(id -u)-test$$ runs/fails
echo x >/dev/shm/lockstep-run-$(id -u)-test$$/states
printf %s "\$PWD/runs/fails" >/dev/shm/lockstep-run-$(id -u)-test$$/run
exit 137
END
cat >bin/srun <<'END'
#!/bin/bash
[[ $* == *--mpi=list* ]] || exec /usr/bin/srun "$@"
END
cat >bin/sleep <<'END'
#!/bin/bash
[[ $1 != 60 ]] || set -- 1   # of the watch on the second node
exec /bin/sleep "$@"
END
chmod +x slow/train_cifar fails/train_cifar bin/*

limited=$(submit limited "$build" 1000000 --nodes=1 --nodelist=n2 --signal=B:USR1@0)
two=$(submit two "$build" 1000000 --nodes=2)
mpirun=$(PATH=$folder/bin:$PATH submit mpirun "$folder/slow" 1 --nodes=2)
mpirun_one=$(PATH=$folder/bin:$PATH LOCKSTEP_BUILD=$folder/slow sbatch --parsable --nodes=1 --ntasks=3 --job-name=one \
  "$here/../../slurm/train_cifar.sbatch" --)
PATH=$folder/bin:$PATH submit fails "$folder/fails" 1 --nodes=1 >/dev/null
for size in 2 3; do
  for ((rank = 0; rank < size; rank++)); do wait_until "rank $rank of $size" 60 test -e up-$size-$rank; done
done
scancel "$mpirun" "$mpirun_one"
wait_until "steps before the time limit" 60 has_trained limited 3
scontrol update jobid="$limited" EndTime=now+1 || fail "the time limit cannot be changed"
wait_until "steps on two nodes" 60 has_trained two 3
scancel "$two"
for job in two mpirun mpirun_one; do wait_until "the end of $job" 30 ended_as "${!job}" CANCELLED 75; done
keeps_all two
for size in 2 3; do
  for ((rank = 0; rank < size; rank++)); do
    [[ -e saved-$size-$rank ]] || fail "mpirun killed rank $rank of $size before it had saved"
  done
done
wait_until "the end of fails" 30 grep -q 'end, exit code' fails-*.log
grep -q 'in the memory of n[12]\.' fails-*.log || fail "a state in memory is not named"

# The same command goes on after the last step.
saved=$(newest two)
again=$(PATH=$folder/bin:$PATH submit two "$build" 1000000 --nodes=2)
wait_until "more steps" 60 has_trained two $((saved + 3))
grep -q "^resumed .* at step $saved of" "two-$again.log" || fail "the second job did not resume at step $saved"

# The node of its script fails: its daemon and all that the job has there.
kill -KILL "$(cat "$cluster/slurmd-n1.pid")"
for pid in $(pgrep -f "^slurmstepd: .$again.batch."); do
  mapfile -t below < <(descendants "$pid")
  kill -KILL "$pid" "${below[@]}"
done
scontrol update nodename=n1 state=down reason=test
wait_until "the job back in the queue" 30 is_waiting "$again"

wait_until "the end of the limited job" 60 ended_as "$limited" TIMEOUT 75
keeps_all limited
echo "scancel and the time limit lost no step; resumed at step $saved"
