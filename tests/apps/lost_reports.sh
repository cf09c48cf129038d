#!/usr/bin/env bash
# Only the report is lost, not the run: a full disk under events and metrics, a reader of stdout that leaves or pauses.
# usage: lost_reports.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"

warnings() { grep -c '^train_cifar: warning: ' "$folder/err"; }

# --- the disk of the logs is full ------------------------------------------------------------------------------------------
if unshare --mount true 2>/dev/null; then
  mkdir "$folder/logs" "$folder/kept"
  # shellcheck disable=SC2016
  run unshare --mount bash -c 'mount -t tmpfs -o size=64k tmpfs "$1" && ln -s "$2" "$1/checkpoints" && shift 2 && exec "$@"' - \
    "$folder/logs" "$folder/kept" mpirun -np 2 "$build/train_cifar" "${small[@]}" --steps 6 --summary-every 1 --run "$folder/logs"
  expect "a full disk of logs does not end the run" test "$code" = 0
  expect_files "the checkpoint is there" "$folder/kept" step-0000000006.h5
  expect "a warning at once, and one at the end" test "$(warnings)" = 2
  expect "with its cause" lines_with "$folder/err" "^train_cifar: warning $folder/logs/ No.space.left.on.device"
  expect "and the end" lines_with "$folder/err" '^train_cifar: warning incomplete'
fi

# --- stdout without a reader, and on a full disk ---------------------------------------------------------------------------
for place in '| head -n 1' '>/dev/full'; do
  run bash -c "set -o pipefail; \"\$@\" $place" - "$build/train_cifar" "${small[@]}" --steps 4 --run "$folder/unread$RANDOM"
  expect "stdout $place does not end the run" test "$code" = 0
  expect "stdout $place: the last step is saved" test -n "$(compgen -G "$folder/unread*/checkpoints/step-0000000004.h5")"
  expect "stdout $place: at most two warnings" test "$(warnings)" -le 2
  expect "stdout $place: a warning names it" lines_with "$folder/err" 'warning standard.output'
  rm -r "$folder"/unread*
done

# --- a pipe without a reader as metrics.jsonl does not block a run -----------------------------------------------------------
train 1 --steps 1 --run "$folder/pipe"
rm -r "$folder/pipe/"{metrics.jsonl,checkpoints}
mkfifo "$folder/pipe/metrics.jsonl"
ranks 2 train_cifar "${small[@]}" --steps 2 --run "$folder/pipe"
expect_error "a pipe without a reader as metrics.jsonl" 74 "metrics.jsonl No.such.device.or.address"

# --- stderr on a full disk, or all three closed -------------------------------------------------------------------------------
run bash -c '"$@" 2>/dev/full' - "$build/train_cifar" --no-such-option
expect "an error that cannot be written keeps its exit code" test "$code" = 2
set -m
"$build/train_cifar" "${small[@]}" --steps 100000 --run "$folder/closed" <&- >&- 2>&- &
launcher=$!
set +m
await 60 test -e "$folder/closed/run.lock.1"
for file in 0 1 2; do
  expect "a closed standard file is not taken for another" test "$(readlink "/proc/$launcher/fd/$file")" = /dev/null
done
kill -TERM "$launcher"
collect
expect "without standard files: exit code 75" test "$code" = 75

# --- a reader pauses for longer than --timeout -----------------------------------------------------------------------------
expect "a reader that pauses" timeout --kill-after=5 $limit python3 - "$build/train_cifar" "${small[@]}" --steps 80 --timeout 3 <<'PYTHON'
import fcntl
import subprocess
import sys
import time

program = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)
fcntl.fcntl(program.stdout, 1031, 4096)  # F_SETPIPE_SZ: the output before it pauses
time.sleep(9)
assert program.poll() is None, "ended while the reader paused"
text = program.stdout.read().decode()
assert program.wait() == 0, program.returncode
assert "step 80" in text, text
PYTHON

# --- a reader that never reads again keeps no request to stop from being heard ---------------------------------------------
expect "a reader that has stopped, and a request to stop" timeout --kill-after=5 $limit python3 - "$build/train_cifar" "${small[@]}" \
  --steps 100000 --run "$folder/paused" <<'PYTHON'
import fcntl
import signal
import subprocess
import sys
import time

program = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
fcntl.fcntl(program.stdout, 1031, 4096)  # F_SETPIPE_SZ
cpu = lambda: sum(map(int, open(f"/proc/{program.pid}/stat").read().rpartition(")")[2].split()[11:13]))
before = -1
while cpu() != before:  # it stands still: the pipe is full
    before = cpu()
    time.sleep(1)
program.send_signal(signal.SIGTERM)
assert program.wait(timeout=30) == 75, program.returncode
assert b"its reader pauses" in program.stderr.read()
PYTHON
expect "it saved a checkpoint" test -n "$(compgen -G "$folder/paused/checkpoints/step-*.h5")"
finish
