#!/usr/bin/env bash
# A rank that dies or is stopped ends all ranks at any phase of the run, long before --timeout: with one cause that names it,
# whole checkpoints, and no process left. A run that is stopped and continued as a whole goes on.
# usage: killed_rank.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
limit=120
patience=30  # seconds: an idle machine needs 3, and --timeout is 60

ranks_of_run() { for r in 0 1 2; do pid_of_rank $r; done; }
# The records of the node are there, so that World is.
in_world() { grep -qs '/dev/shm/lockstep-' "/proc/$(pid_of_rank "$1")/maps"; }
has_saved() { grep -q "step $1/.* saved" "$folder/out"; }  # STEP
# A larger network, if the signal must arrive while a checkpoint is written.
writes_checkpoint() { [[ -n $(find "$folder/kept/checkpoints" -name '*.h5.tmp-*' -print -quit) ]]; }

# WHEN (a command that succeeds then) SIGNAL RANK OPTIONS...
expect_end() {
  local when=$1 signal=$2 rank=$3 pids pid result='died' what net=resnet_small
  [[ $when != writes_checkpoint ]] || net=tutorial
  what="SIG$2 to rank $3 when $1"
  shift 3
  [[ $signal != STOP ]] || result=SIGSTOP
  rm -rf "$folder/kept"
  start 3 --model $net --global-batch 12 --checkpoint-every 1 --keep 0 --run "$folder/kept" "$@"
  # shellcheck disable=SC2086  # a command and its arguments
  await 60 $when
  pids=$(ranks_of_run)
  pid=$(pid_of_rank "$rank")
  expect "$what: three ranks run" test "$(wc -w <<<"$pids")" = 3
  local end=$((SECONDS + patience))
  kill -"$signal" "$pid"
  collect
  expect "$what: all end" test $SECONDS -le $end
  expect "$what: a failure" test "$code" -ne 0
  expect "$what: not a request to be requeued" test "$code" -ne 75
  expect "$what: the rank is named" \
    lines_with "$folder/err" "^train_cifar: rank.$rank pid.$pid host $result step"
  if [[ $when == 'in_world 2' ]]; then
    expect "$what: no checkpoint is named" bash -c "! grep -q 'last checkpoint' '$folder/err'"
  elif [[ $result == died && $when == has_* ]]; then
    expect "$what: a checkpoint is named" grep -q 'last checkpoint' "$folder/err"
  fi
  expect "$what: no other rank is named" test "$(grep -cE 'rank [0-9]+ \(' "$folder/err")" = 1
  for pid in $pids; do
    await 10 bash -c "! kill -0 $pid" || complain "$what: process $pid is still there"
  done
  run "$build/train_cifar" "${small[@]}" --model $net --global-batch 12 --shards 3 --steps 4 --check --run "$folder/kept"
  expect "$what: the newest checkpoint is whole" bash -c "[[ $code == 0 ]] && ! grep -q '^warning' '$folder/out'"
}
# At start-up, in training under each reducer and policy, while a checkpoint is written, in evaluation.
starting() {
  expect_end 'in_world 2' KILL 2
  expect_end 'in_world 0' STOP 0
  expect_end writes_checkpoint KILL 0
  expect_end writes_checkpoint STOP 0
}
training() {
  expect_end 'has_done 4' KILL 1
  expect "a survivor writes why" lines_with "$folder/kept/summary.json" 'reason.*rank.1 died'
  expect "and the status" grep -q '"status": "failed"' "$folder/kept/summary.json"
  expect_end 'has_done 4' KILL 0 --reducer tree
  expect_end 'has_done 4' KILL 2 --reducer mpi --progress thread
  expect_end 'has_done 4' SEGV 1 --reducer halving_doubling --progress wait
}
evaluating() {
  expect_end 'has_done 4' STOP 0 --reducer tree --progress thread
  expect_end 'has_saved 1' STOP 1 --eval-every 1
  expect_end 'has_saved 1' KILL 2 --eval-every 1
}
# In parallel, because they wait most of the time.
aside starting
aside training
aside evaluating

# A resumed run names its checkpoint before it saves another.
train 3 --model resnet_small --global-batch 12 --steps 2 --run "$folder/kept"
start 3 --model resnet_small --global-batch 12 --checkpoint-every 1000000 --run "$folder/kept"
await 60 grep -q '^resumed ' "$folder/out"
await 60 has_done '[0-9]*'
kill -KILL "$(pid_of_rank 1)"
collect
expect "killed after a resume: a checkpoint is named" grep -q 'last checkpoint' "$folder/err"

# Before the ranks know each other: as if it had been stopped in MPI_Init, for which the others wait.
# shellcheck disable=SC2016
run mpirun -np 3 bash -c '[[ $OMPI_COMM_WORLD_RANK != 1 ]] || kill -STOP $$; exec "$@"' - \
  "$build/train_cifar" "${small[@]}" --global-batch 12 --steps 2
expect_error "a rank that is stopped before MPI is up" 68 '^train_cifar: rank.1 stopped SIGSTOP MPI'

# Suspended and continued as a whole, in any order.
start 3 --global-batch 12
await 60 has_done 4
pids=$(ranks_of_run)
# shellcheck disable=SC2086  # a list of processes
kill -STOP $pids
for pid in $pids; do
  await 10 grep -q '^State:.*stopped' "/proc/$pid/status" || complain "process $pid does not stop"
done
sleep 4  # twice the limit for a single rank
before=$(grep -c . "$folder/out")
# shellcheck disable=SC2046,SC2086
kill -CONT $(printf '%s\n' $pids | tac)
await 60 bash -c "(( \$(grep -c . '$folder/out') > $before + 20 ))"
sleep 3  # time enough to be blamed
expect "a run that was suspended as a whole goes on" kill -0 "$launcher"
kill -TERM -- "-$launcher"
collect
expect "no rank is blamed for a suspension" bash -c "! grep -E 'rank [0-9]+ \\(' '$folder/err'"
join_asides
finish
