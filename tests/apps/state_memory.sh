#!/usr/bin/env bash
# With LOCKSTEP_MEMORY a run that is killed resumes from the newest state in memory, and its weights are bitwise those of a
# run that nothing disturbed. The reports have each step once. A damaged state, a full /dev/shm and another run cost only the
# copy.
# usage: state_memory.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
small_checkpoints
name=lockstep-test-$$
memory=/dev/shm/$name-$(hostname)
trap '[[ $BASHPID != $$ ]] || { tidy; rm -rf "$memory"; }' EXIT
small_data "$folder/data"
options=(--data "$folder/data/small" --dataset hdf5 --steps 60 --eval-every 7 --ema 0.9 --optimizer adam --checkpoint-every 1000000 --keep 0)

steps_of() { sed -n 's/.*"kind":"'"$2"'".*"step":\([0-9]*\)[,}].*/\1/p' "$1/metrics.jsonl"; }  # RUN KIND
states() { find "$memory" -name 'step-*.h5' 2>/dev/null | sort; }
kept() { [[ -n $(states) ]]; }
kill_when() {  # COMMAND...: kills rank 1 then
  await 60 "$@" || exit 1
  kill -KILL "$(pid_of_rank 1)"
  collect
  expect "a rank is killed" test "$code" -ne 0
}

train 2 "${options[@]}" --run "$folder/undisturbed"
expect "nothing is in memory without the variable" test ! -e "$memory"

export LOCKSTEP_MEMORY=$name
# The first start has no checkpoint on the disk. --resume never began this run, and the same command resumes it.
start 2 "${options[@]}" --resume never --run "$folder/killed"
kill_when has_done 15
expect_files "no checkpoint" "$folder/killed/checkpoints"
expect "the last step is known" test "$((10#$(cat "$memory/step")))" -ge 14
expect "one or two states" kept
expect "only this user may enter" test "$(stat -c %a "$memory")" = 700
cp -r "$memory" "$folder/before"
cp -r "$folder/killed" "$folder/copy"

# Another run does not take its state, and --check leaves it.
ranks 2 train_cifar "${small[@]}" "${options[@]}" --run "$folder/killed" --check
expect "--check leaves the states" kept

# The newest is damaged: the one before counts.
whole=$(states | tail -n 1)
newest=$memory/step-0000000059.h5
cp "$whole" "$newest"
printf x | dd of="$newest" bs=1 seek=$(($(stat -c %s "$newest") / 2)) conv=notrunc status=none
start 2 "${options[@]}" --resume never --run "$folder/killed"
await 60 grep -q '^resumed ' "$folder/out"
expect_line "a warning" "^warning $(basename "$newest") skipping memory"
expect_line "resumed from the state before" "^resumed $whole"
kill_when has_done 35
train 2 "${options[@]}" --resume never --run "$folder/killed"
expect_line "resumed from memory" "^resumed from.$memory/step-"
expect_same_state "as undisturbed" "$(step_file "$folder/undisturbed" 60)" "$(step_file "$folder/killed" 60)"
for kind in train evaluation; do
  expect "each line of kind $kind once" test "$(steps_of "$folder/killed" $kind)" = "$(steps_of "$folder/undisturbed" $kind)"
done
expect "a complete run leaves no memory" test ! -e "$memory"

# On other ranks, with what the first start left in memory.
cp -r "$folder/before" "$memory"
train 1 "${options[@]}" --shards 2 --run "$folder/copy"
expect_line "resumed from memory" "^resumed from.$memory/step-"
expect_same_state "one rank" "$(step_file "$folder/undisturbed" 60)" "$(step_file "$folder/copy" 60)"

# A new run ignores and removes the states of another.
cp -r "$folder/before" "$memory"
train 2 "${options[@]}" --steps 3 --run "$folder/other"
expect "it begins at the first step" test "$(steps_of "$folder/other" train | head -n 1)" = 1

# SIGUSR1: the checkpoint is on the disk, and newer than memory.
start 2 "${options[@]}" --run "$folder/stopped"
await 60 kept
kill -USR1 "$(pid_of_rank 1)"
collect
expect "a request to stop" test "$code" = 75
train 2 "${options[@]}" --run "$folder/stopped"
expect_line "resumed from the disk" "^resumed from.$folder/stopped/checkpoints"
expect_same_state "after a stop" "$(step_file "$folder/undisturbed" 60)" "$(step_file "$folder/stopped" 60)"

expect "a complete run leaves no memory" test ! -e "$memory"
LOCKSTEP_MEMORY=a/b ranks 1 train_cifar "${small[@]}" --steps 1 --run "$folder/invalid"
expect_error "a name with a slash" 2 '^train_cifar: LOCKSTEP_MEMORY a/b'
ln -s "$folder" "$memory"
ranks 1 train_cifar "${small[@]}" --steps 1 --run "$folder/link"
expect_error "a link" 1 "^train_cifar: $memory folder LOCKSTEP_MEMORY"
rm "$memory"

# A /dev/shm that is too small for the copy of the state, and one that is too small for states.
in_shm() {  # SIZE OPTIONS...
  # shellcheck disable=SC2016
  run env OMPI_MCA_btl=tcp,self unshare -m bash -c 'mount -t tmpfs -o "size=$1" lockstep-test /dev/shm && exec mpirun -np 2 "${@:2}"' - \
    "$1" "$build/train_cifar" "${small[@]}" "${options[@]}" --steps 40 --reducer tree "${@:2}"
}
if unshare -m mount -t tmpfs -o size=1m lockstep-test /dev/shm 2>/dev/null; then
  in_shm 1m --run "$folder/waiting"
  expect_line "steps wait for checkpoints" '^note steps.wait /dev/shm'
  in_shm 2m --run "$folder/beside"
  expect_line "no state is kept" '^warning no.state.in.memory No.space'
  expect "one warning" test "$(grep -c '^warning' "$folder/out")" = 1
  expect_same_state "checkpoints are the same" "$(step_file "$folder/waiting" 40)" "$(step_file "$folder/beside" 40)"
fi
expect "the steps are known" test "$(steps_of "$folder/undisturbed" train | wc -l)" = 60
finish
