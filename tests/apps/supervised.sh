#!/usr/bin/env bash
# lockstep_run: after a rank or mpirun is killed it starts the ranks again, and the weights are those of a run without a fault.
# It passes requests to stop on, and nothing is left when it is killed itself.
# usage: supervised.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
small_checkpoints
cd "$folder" || exit 1  # its memory has the name of this folder
steps=150
options=("${small[@]}" --steps $steps --checkpoint-every 10 --run)

supervise() {  # OPTION... : starts train_cifar in the background; `launcher` is the process group
  : >"$folder/out"
  began=$SECONDS
  set -m
  timeout --kill-after=5 $limit "$build/lockstep_run" -np 2 "$build/train_cifar" "${options[@]}" "$@" >"$folder/out" 2>"$folder/raw" </dev/null &
  launcher=$!
  set +m
}
supervisor() { children "$launcher"; }
mpirun_pid() { children "$(supervisor)"; }
rank_pid() {  # RANK
  local pid
  for pid in $(children "$(mpirun_pid)"); do
    ! grep -zqsx "OMPI_COMM_WORLD_RANK=$1" "/proc/$pid/environ" || echo "$pid"
  done
}
trains_again() {  # NUMBER: ten steps are done since the start of this number
  test "$(awk -v start="$1" '/^Lockstep / { ++starts } /^step / && starts == start' "$folder/out" | wc -l)" -gt 10
}
gone() { ! kill -0 "$1"; }

train 2 "${options[@]}" "$folder/whole"

supervise "$folder/faulty"
await 30 trains_again 1
kill -KILL "$(rank_pid 1)"
await 30 trains_again 2
kill -KILL "$(mpirun_pid)"
collect
expect "it trains to the end: $code" test $code = 0
expect "it names the causes" test "$(grep -cE '^lockstep_run: .*(a rank or a host was lost|killed by SIGKILL)' "$folder/err")" = 2
expect_same_state "two faults change no bit" "$(step_file "$folder/whole" $steps)" "$(step_file "$folder/faulty" $steps)"
expect "summary.json lists both changes" test "$(grep -c '"change": ' "$folder/faulty/summary.json")" = 2
expect "metrics.jsonl too" test "$(grep -c '"kind":"change"' "$folder/faulty/metrics.jsonl")" = 2

# A folder that is moved away begins no new run, whether a rank is lost (without checkpoints) or a checkpoint cannot be written.
# When it is back, its state counts.
for every in 1000 10; do
  options=("${small[@]}" --steps $steps --checkpoint-every $every --run)
  supervise "$folder/moved"
  await 30 trains_again 1
  mv "$folder/moved" "$folder/elsewhere"
  [[ $every == 10 ]] || kill -KILL "$(rank_pid 1)"
  collect
  expect "a moved folder: $code" test "$code" = 74
  expect "the reason is named" lines_with "$folder/err" "^train_cifar: $folder/moved gone"
  expect "no new run" test ! -e "$folder/moved"
  mv "$folder/elsewhere" "$folder/moved"
  run "$build/lockstep_run" -np 2 "$build/train_cifar" "${options[@]}" "$folder/moved"
  expect_line "it resumes from its state" '^resumed step-'
  rm -r "$folder/moved"
done

# mpirun ends when the reader of its output ends. Another start would end too.
timeout $limit "$build/lockstep_run" -np 2 "$build/train_cifar" "${options[@]}" "$folder/unread" 2>"$folder/raw" </dev/null | head -n 1 >"$folder/out"
code=${PIPESTATUS[0]}
expect "the reader of its output ends: $code" test "$code" = 141
expect "no second start" bash -c "! grep '^lockstep_run' '$folder/raw'"
run "$build/lockstep_run" -np 2 "$build/train_cifar" "${options[@]}" "$folder/unread"
expect "the same command continues: $code" test "$code" = 0

supervise "$folder/stopped"
await 30 trains_again 1
run "$build/lockstep_run" -np 2 "$build/train_cifar" "${options[@]}" "$folder/stopped"
expect_error "a second supervisor" 69 "^train_cifar: --run $folder/stopped in.use"
: >"$folder/raw"
kill -TERM "$(supervisor)"
collect
expect "SIGTERM is a request: $code" test $code = 75
expect "it is answered at a step" grep -q 'stopped on request after step' "$folder/err"
supervise "$folder/stopped"
await 30 trains_again 1
kill -STOP "$(mpirun_pid)" "$(rank_pid 0)" "$(rank_pid 1)"
kill -TERM "$(supervisor)"
collect
expect "so it is if mpirun and the ranks are stopped: $code" test $code = 75
expect "they answer at a step too" grep -q 'stopped on request after step' "$folder/err"

supervise "$folder/stopped"
await 30 trains_again 1
rank=$(rank_pid 0)
kill -KILL "$(supervisor)"
expect "without the supervisor the ranks end" await 5 gone "$rank"
collect
run "$build/lockstep_run" -np 2 "$build/train_cifar" "${options[@]}" "$folder/stopped"
expect "the same command resumes: $code" test $code = 0
expect_same_state "a stop changes no bit" "$(step_file "$folder/whole" $steps)" "$(step_file "$folder/stopped" $steps)"
expect "nothing is left in memory" test -z "$(grep -ls "$folder" /dev/shm/lockstep-run-*/run)"

# Without a name: another run with the same options has a higher number. After a crash each start goes on in its own folder.
sed -i '/^no-run/d' "$folder/small.toml"
options=("${small[@]}" --steps $steps --checkpoint-every 1000)
supervise
await 30 trains_again 1
ranks_of_first=("$(rank_pid 0)" "$(rank_pid 1)")
first=$launcher
cp "$folder/out" "$folder/first"  # both write to the same file from now on
timeout --kill-after=5 $limit "$build/lockstep_run" -np 2 "$build/train_cifar" "${options[@]}" >"$folder/second" 2>&1 </dev/null &
second=$!
await 30 grep -q "^step 20/" "$folder/second"
pkill -USR1 -P "$second" -x lockstep_run
wait "$second"
expect "the second run stops: $?" test $? = 75
cp -r runs/train_cifar-resnet_small-2 stopped-2
launcher=$first
kill -KILL "${ranks_of_first[@]}"
collect
expect "the first one goes on: $code" test $code = 0
expect_same_state "in its own folder" "$(step_file "$folder/whole" $steps)" "$(step_file runs/train_cifar-resnet_small-1 $steps)"
expect "the other one is as it was" diff -r runs/train_cifar-resnet_small-2 stopped-2
expect "there is no third one" test "$(find runs -mindepth 1 -maxdepth 1 | wc -l)" = 2
rm -r runs
echo 'no-run = true' >>"$folder/small.toml"

# mpirun hangs without descriptors, and starts no rank. One request is enough.
cd "$folder" || exit 1
set -m
(ulimit -n 24 && exec "$build/lockstep_run" -np 2 "$build/train_cifar" "${small[@]}" --steps 3) >"$folder/out" 2>"$folder/raw" </dev/null &
launcher=$!
set +m
sleep 2
kill -TERM "$launcher" 2>/dev/null
await 10 ended
collect
expect "it does not end with success: $code" test "$code" != 0

# 60 hosts answer, but there are descriptors for a few at a time: no host is lost. mpirun is a stand-in that makes no step.
mkdir "$folder/bin"
printf '#!/bin/sh\nsleep 4\n' >"$folder/bin/mpirun"
printf '#!/bin/sh\nshift\nexec sh -c "$*"\n' >"$folder/bin/agent"
chmod +x "$folder/bin/"*
hosts=$(seq -f 'host%g:1' -s, 60)
# shellcheck disable=SC2016
run env PATH="$folder/bin:$PATH" OMPI_MCA_plm_rsh_agent="$folder/bin/agent" bash -c 'ulimit -n 24; exec "$0" --host "$1" true' \
  "$build/lockstep_run" "$hosts"
expect "a stand-in of mpirun ends: $code" test "$code" = 0
expect "no host is lost" bash -c "! grep -q 'lost host' '$folder/raw'"

# Lines of an agent may begin with a path. They name no folder for the next start.
# shellcheck disable=SC2016
printf '#!/bin/sh\necho "folder=$LOCKSTEP_RUN"\nsleep 2\nkill -KILL $$\n' >"$folder/bin/mpirun"
printf '#!/bin/sh\necho "/etc/profile: line 3: a warning" >&2\nshift\nexec sh -c "$*"\n' >"$folder/bin/agent"
run env PATH="$folder/bin:$PATH" OMPI_MCA_plm_rsh_agent="$folder/bin/agent" "$build/lockstep_run" --restarts 1 --host host1:1,host2:1 true
expect "the folder of the run is not known" test "$(grep -c '^folder=$' "$folder/out")" = 2

# Hosts whose agents need longer than the first limit: the ranks are not ended, because late answers raise it.
printf '#!/bin/sh\nsleep 13\n' >"$folder/bin/mpirun"
printf '#!/bin/sh\nsleep 1.4\nshift\nexec sh -c "$*"\n' >"$folder/bin/agent"
run env PATH="$folder/bin:$PATH" OMPI_MCA_plm_rsh_agent="$folder/bin/agent" "$build/lockstep_run" --host host1:1,host2:1 true
expect "ranks on slow hosts end by themselves: $code" test "$code" = 0
expect "no host is lost" test ! -s "$folder/err"

# Errors that a new start cannot cure end at once, with one line.
again() { run "$build/lockstep_run" -np 2 "$build/train_cifar" "${small[@]}" --steps 3 "$@"; }
again --lr 1e5
expect_error "divergence" 66 '^train_cifar: diverged'
again --data "$folder"
expect_error "no data" 65 "^train_cifar: $folder"
again --batchs 3
expect_error "a wrong option" 2 '^train_cifar: batchs'
run "$build/lockstep_run" -np 2 nothing_of_this_name
expect_error "no program" 2 '^lockstep_run: nothing_of_this_name PATH'
run "$build/lockstep_run" --host a:1 --np 2 "$build/train_cifar"
expect_error "too few slots" 2 '^lockstep_run: 2 1.slot'
expect "it needs no MPI itself" test "$(ldd "$build/lockstep_run" | grep -c libmpi)" = 0
finish
