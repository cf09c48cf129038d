#!/usr/bin/env bash
# A run whose ranks are killed resumes from the newest state in memory, without a supervisor too, and its weights are bitwise
# those of a run that nothing disturbed. The reports have each step once. A damaged state, a full /dev/shm, a stranger's
# folder and a copy of the run cost only the state.
# usage: state_memory.sh BUILD_FOLDER
# Any start removes old states of other runs: other tests must not see those of this one.
if [[ ! ${own_shm-} ]] && unshare -m mount -t tmpfs lockstep-test /dev/shm 2>/dev/null; then
  # shellcheck disable=SC2016
  own_shm=1 exec unshare -m bash -c 'mount -t tmpfs lockstep-test /dev/shm && exec bash "$0" "$@"' "$0" "$@"
fi
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
small_checkpoints
memory_of() {  # RUN: its folder in memory
  local file
  for file in /dev/shm/lockstep-run-"$(id -u)"-*/run; do
    [[ ! -e $file || $(cat "$file") != "$1" ]] || dirname "$file"
  done
}
trap '[[ $BASHPID != $$ ]] || { for run in "$folder"/*/; do rm -rf "$(memory_of "${run%/}")"; done; tidy; }' EXIT
small_data "$folder/data"
options=(--data "$folder/data/small" --dataset hdf5 --steps 60 --eval-every 7 --ema 0.9 --optimizer adam --checkpoint-every 1000000 --keep 0)

steps_of() { sed -n 's/.*"kind":"'"$2"'".*"step":\([0-9]*\)[,}].*/\1/p' "$1/metrics.jsonl"; }  # RUN KIND
kept() { has_state "$(memory_of "$1")"; }  # RUN
kill_when_done() {  # STEP RUN: kills all ranks when a state is kept, too
  await 60 has_done "$1" && await 60 kept "$2" || exit 1
  kill -KILL "$(pid_of_rank 1)" "$(pid_of_rank 0)"
  collect
  expect "the ranks are killed" test "$code" -ne 0
}
resumed_at() { sed -nE 's/^resumed .*step-0*([0-9]+)\.h5.*/\1/p' "$folder/out"; }

train 2 "${options[@]}" --run "$folder/undisturbed"
expect "a complete run leaves no memory" test -z "$(memory_of "$folder/undisturbed")"

# The first start has no checkpoint on the disk. --resume never began this run, and the same command resumes it.
start 2 "${options[@]}" --resume never --run "$folder/killed"
kill_when_done 15 "$folder/killed"
memory=$(memory_of "$folder/killed")
expect_files "no checkpoint" "$folder/killed/checkpoints"
expect "a state" kept "$folder/killed"
expect "only this user may enter" test "$(stat -c %a "$memory")" = 700
cp -r "$folder/killed" "$folder/copy"
cp -r "$memory" "$folder/before"

# --check leaves the states.
ranks 2 train_cifar "${small[@]}" "${options[@]}" --run "$folder/killed" --check
expect "--check leaves the states" cmp "$memory/states" "$folder/before/states"

# A copy of the run's folder is another run. It does not take the state, and leaves it.
train 1 "${options[@]}" --shards 2 --steps 3 --resume never --run "$folder/copy"
expect "another run begins" test "$(resumed_at)" = ""
expect "it leaves the states" cmp "$memory/states" "$folder/before/states"

# Killed again in mid-run; then on one rank.
start 2 "${options[@]}" --resume never --run "$folder/killed"
kill_when_done 35 "$folder/killed"
resumed=$(resumed_at)
expect "it resumed from memory" test "$resumed" -gt 0
[[ ! ${own_shm-} ]] || touch -d '8 days ago' "$memory/run"  # other starts would remove this state
train 1 "${options[@]}" --shards 2 --resume never --run "$folder/killed"
expect "it resumed from memory again" test "$(resumed_at)" -gt "$resumed"
expect_same_state "as undisturbed" "$(step_file "$folder/undisturbed" 60)" "$(step_file "$folder/killed" 60)"
for kind in train evaluation; do
  expect "each line of kind $kind once" test "$(steps_of "$folder/killed" $kind)" = "$(steps_of "$folder/undisturbed" $kind)"
done
expect "a complete run leaves no memory" test -z "$(memory_of "$folder/killed")"

# With a damaged state the run begins again.
start 2 "${options[@]}" --run "$folder/hurt"
kill_when_done 15 "$folder/hurt"
memory=$(memory_of "$folder/hurt")
for tenths in 3 9; do  # a weight of each copy
  printf x | dd of="$memory/states" bs=1 seek=$(($(stat -c %s "$memory/states") * tenths / 10)) conv=notrunc status=none
done
train 2 "${options[@]}" --run "$folder/hurt"
expect_line "a warning" "^warning skipping.a.state checksum"
expect_same_state "as undisturbed" "$(step_file "$folder/undisturbed" 60)" "$(step_file "$folder/hurt" 60)"

# SIGUSR1: the checkpoint is on the disk, and no state remains.
start 2 "${options[@]}" --run "$folder/stopped"
await 60 kept "$folder/stopped"
kill -USR1 "$(pid_of_rank 1)"
collect
expect "a request to stop" test "$code" = 75
expect "the checkpoint has all steps" test -z "$(memory_of "$folder/stopped")"

# A folder that others may enter cannot be trusted. The run goes on without states.
start 2 "${options[@]}" --run "$folder/stranger"
kill_when_done 15 "$folder/stranger"
memory=$(memory_of "$folder/stranger")
chmod 777 "$memory"
train 2 "${options[@]}" --run "$folder/stranger"
expect_line "a warning" "^warning skipping.a.state only.this.user"
expect "it takes no state from there" test "$(resumed_at)" = ""
rm -r "$memory"

# Another start finds the states of a run whose folder is gone.
start 2 "${options[@]}" --run "$folder/gone"
kill_when_done 15 "$folder/gone"
memory=$(memory_of "$folder/gone")
expect "a state remains" test -e "$memory/states"
LC_ALL=C sed -i 's/position/Position/g' "$memory/states"
train 1 "${options[@]}" --steps 1 --run "$folder/beside"  # a state of another form ends no other run
expect "what cannot be read stays" test -e "$memory/states"
rm -r "$folder/gone"
train 1 "${options[@]}" --steps 1 --run "$folder/next"
expect "another start removes it" test ! -e "$memory"

# Memory became short: the state needs it no longer, so the run resumes from it, keeps no more, and leaves nothing.
if [[ ${own_shm-} ]]; then
  tight() { OMPI_MCA_btl=tcp,self train 2 "${options[@]}" --reducer tree --run "$folder/tight"; }
  start 2 "${options[@]}" --run "$folder/tight"
  kill_when_done 15 "$folder/tight"
  used=$(df -k --output=used /dev/shm | tail -n 1)
  mount -o "remount,size=$((used + 400))k" /dev/shm
  tight
  expect "it resumed from memory" test "$(resumed_at)" -gt 0
  expect_line "no state is kept" '^note no.state.is.kept /dev/shm'
  expect_same_state "as undisturbed" "$(step_file "$folder/undisturbed" 60)" "$(step_file "$folder/tight" 60)"
  expect "it leaves no memory" test -z "$(memory_of "$folder/tight")"
  mount -o remount,size=50% /dev/shm
fi

# A /dev/shm that is too small for the states.
in_shm() {  # SIZE OPTIONS...
  # shellcheck disable=SC2016
  run env OMPI_MCA_btl=tcp,self unshare -m bash -c 'mount -t tmpfs -o "size=$1" lockstep-test /dev/shm && exec mpirun -np 2 "${@:2}"' - \
    "$1" "$build/train_cifar" "${small[@]}" "${options[@]}" --steps 40 --reducer tree "${@:2}"
}
if unshare -m mount -t tmpfs -o size=1m lockstep-test /dev/shm 2>/dev/null; then
  in_shm 1m --run "$folder/waiting"
  expect_line "steps wait for checkpoints" '^note steps.wait /dev/shm'
  in_shm 2m --run "$folder/without"
  expect_line "no state is kept" '^note no.state.is.kept /dev/shm'
  expect_same_state "checkpoints are the same" "$(step_file "$folder/waiting" 40)" "$(step_file "$folder/without" 40)"
fi
expect "the steps are known" test "$(steps_of "$folder/undisturbed" train | wc -l)" = 60
finish
