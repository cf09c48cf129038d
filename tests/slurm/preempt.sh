#!/usr/bin/env bash
# A job of slurm/train_cifar.sbatch is warned of its time limit and later requeued by a command. Its weights, momentum and
# averages are bitwise identical to those of an undisturbed job.
# usage: preempt.sh BUILD_FOLDER
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=SCRIPTDIR/lib_cluster.sh
. "$here/lib_cluster.sh"
# shellcheck source=SCRIPTDIR/lib_jobs.sh
. "$here/lib_jobs.sh"
export LOCKSTEP_BUILD=$1
batch_script=$here/../../slurm/train_cifar.sbatch
steps=400

python=/usr/bin/python3
"$python" -c 'import h5py' 2>/dev/null || skip "python3-h5py is not installed (scripts/install_dependencies.sh --tests)"

jobs_begin

submit() {  # JOBNAME: prints the job number
  sbatch --parsable --ntasks=2 --job-name="$1" "$batch_script" -- --steps $steps --batch 8 --seed 7 --shards 2 \
    --lr 0.01 --momentum 0.9 \
    --log-every 10 --checkpoint-every 50 --eval-every 0 --summary-every 0
}

undisturbed=$(submit undisturbed)
wait_until "the end of the undisturbed job" 150 has_ended "$undisturbed"
[[ $(newest undisturbed) == "$steps" ]] || fail "the undisturbed job did not reach step $steps"

# The warning before the time limit: the script forwards it, the ranks agree on a checkpoint, the script requeues the job.
disturbed=$(submit disturbed)
wait_until "step 50" 60 has_reached disturbed 50
scancel --batch --signal=USR1 "$disturbed"
wait_until "the job back in the queue" 30 is_waiting "$disturbed"
first_stop=$(newest disturbed)
[[ $first_stop -ge 50 && $first_stop -lt $steps ]] || fail "the first stop is at step $first_stop, not between 50 and $steps"

# Preemption: SLURM sends SIGTERM and requeues by itself.
wait_until "the second start" 60 has_begun disturbed 2
wait_until "more steps" 60 has_reached disturbed $((first_stop + 1))
scontrol requeue "$disturbed"
wait_until "the third start" 60 has_begun disturbed 3
wait_until "the end of the disturbed job" 150 has_ended "$disturbed"
[[ $(grep -c '^resumed ' disturbed-*.log) == 2 ]] && grep -q "^resumed .* at step $first_stop of $steps" disturbed-*.log ||
  fail "a start did not continue from the last checkpoint"
awk '/^step / { last = $2 + 0 } /^resumed / { sub(/.* at step /, ""); if ($1 + 0 < last) exit 1 }' disturbed-*.log ||
  fail "a start lost steps of the one before"
[[ $(newest disturbed) == "$steps" ]] || fail "the disturbed job did not reach step $steps"

"$python" - $steps <<'PYTHON' || fail "the two runs differ"
import sys

import h5py
import numpy

name = "checkpoints/step-%010d.h5" % int(sys.argv[1])
compared = 0
with h5py.File("runs/undisturbed/" + name) as one, h5py.File("runs/disturbed/" + name) as other:
    names = []
    one.visititems(lambda path, item: names.append(path) if isinstance(item, h5py.Dataset) else None)
    for path in names:
        if not path.startswith(("parameters/", "optimizer/", "ema/")):
            continue
        a, b = numpy.asarray(one[path]), numpy.asarray(other[path])
        if a.shape != b.shape or a.tobytes() != b.tobytes():
            sys.exit("data set %s differs" % path)
        compared += a.size
if compared < 3 * 1068298:
    sys.exit("only %d numbers were compared" % compared)
print("%d numbers are bitwise identical" % compared)
PYTHON
echo "stopped at step $first_stop, preempted, ended: the same state as the undisturbed job"
