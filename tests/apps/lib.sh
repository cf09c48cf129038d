# Functions that the tests of the programs share (sourced, with the build folder as $1): runs with a time limit, and checks
# of their output and files. A test ends with `finish`.
# shellcheck shell=bash
set -uo pipefail
# mpirun must not print advice after a rank's own error (Open MPI 4 and 5).
export OMPI_MCA_orte_execute_quiet=1 PRTE_MCA_prte_execute_quiet=1
build=$(realpath "$1")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
test_name=$(basename "$0" .sh)
folder=$(mktemp -d -t "lockstep-$test_name.XXXXXX")
failures=0
checks=0
limit=60  # time limit of one run, in seconds
launcher= # process group of a run in the background; empty if there is none
code=0

# Options for a run of a second: a small batch, one thread, no evaluation of ten thousand images. They are in a file, so
# that the command line can override them.
printf '%s\n' 'global-batch = 16' 'threads = 1' 'log-every = 1' 'eval-every = 0' 'summary-every = 0' 'verbose = true' \
  'no-run = true' >"$folder/small.toml"
small=(--config "$folder/small.toml")
# Selects a network whose checkpoints are a thirteenth as large, for tests that write many.
small_checkpoints() { echo 'model = "resnet_small"' >>"$folder/small.toml"; }

tidy() {
  [[ -z $launcher ]] || kill -KILL -- "-$launcher" 2>/dev/null
  rm -rf "$folder"
}
# A forked child keeps this trap until it runs its program, so the trap must act only in this shell.
trap '[[ $BASHPID != $$ ]] || tidy' EXIT

complain() {  # WHAT: counts a failure and prints the output of the last run
  failures=$((failures + 1))
  {
    echo "FAILED: $1"
    tail -n 5 "$folder/out" | cut -c1-160 | sed 's/^/  stdout: /'
    tail -n 30 "$folder/raw" | sed 's/^/  stderr: /'
  } >&2 2>/dev/null
}
expect() {  # WHAT COMMAND...: the command must succeed
  local what=$1
  shift
  checks=$((checks + 1))
  "$@" || complain "$what ($*)"
}
finish() {
  if [[ $failures == 0 ]]; then echo "$test_name: all $checks checks pass"; else exit 1; fi
}
skip() { echo "skipped: $1"; exit 77; }

# Succeeds if this processor computes in bf16, which oneDNN supports from AVX-512 on.
has_bf16() { grep -q avx512bw /proc/cpuinfo && has_onednn; }
has_onednn() { [[ $("$build/train_cifar" --list) == *$'\n  fast '* ]]; }

# Writes data sets of 100 test samples: an evaluation of the generated ones takes 2 s of a core. Needs `python`.
small_data() {  # FOLDER
  "$python" "$here/small_data.py" "$1" || complain "small data"
}

# Sets `python` to a Python with h5py, or skips the test.
need_h5py() {
  for python in python3 /usr/bin/python3 none; do
    "$python" -c 'import h5py' 2>/dev/null && return
  done
  skip "no python has the package h5py (scripts/install_dependencies.sh --tests)"
}

# Lets `preloaded COMMAND...` run with clocks that `move` sets, or skips the test.
need_moved_clock() {
  command -v cc >/dev/null || skip "there is no C compiler"
  cc -shared -fPIC -O1 -o "$folder/clock.so" "$here/../support/moved_clock.c" || complain "moved_clock.c"
  export MOVED_CLOCK=$folder/clock
  move 0 0
}
# move REAL MONOTONIC: from now on the clocks of all these programs are so many seconds ahead.
move() { printf '%12d %12d\n' "$1" "$2" 1<>"$MOVED_CLOCK"; }
preloaded() { LD_PRELOAD=$folder/clock.so "$@"; }

# Copies the program's own lines of stderr. Removes boxes and lines of Open MPI ("[host:pid] ...") and the NUL characters of
# Open MPI 5. Also removes the note of a build with CUDA on a machine without a GPU.
own_words() {
  tr -d '\0' | awk '/^-+$/ && length > 20 { box = !box; next } !box' |
    grep -vE '^\[[^]]*:[0-9]+\] |^mpirun: abort is already in progress|^\[warn\] Epoll |^$|note: no CUDA device.* using cpu$'
}

# run COMMAND...: sets `code`. stdout is in $folder/out, stderr in $folder/raw, and the program's own lines of stderr in
# $folder/err. After a rank failed, mpirun need not wait a second for the others, because the error is already printed.
run() {
  code=0
  began=$SECONDS
  OMPI_MCA_odls_base_sigkill_timeout=0 PRTE_MCA_odls_base_sigkill_timeout=0 \
    timeout --kill-after=5 $limit "$@" >"$folder/out" 2>"$folder/raw" </dev/null || code=$?
  own_words <"$folder/raw" >"$folder/err"
  ((SECONDS - began < limit)) || complain "did not end within $limit s: $*"
}
# ranks RANKS PROGRAM OPTION...: one rank runs without mpirun, which takes longer than a small run. Only --run gives a run a
# folder.
ranks() {
  local launch=(mpirun -np "$1") program=("$build/$2")
  [[ $1 != 1 ]] || launch=()
  [[ $2 != train_* || " $* " == *' --run '* ]] || program+=(--no-run)
  shift 2
  run "${launch[@]}" "${program[@]}" "$@"
}
# two_commands COMMAND... // COMMAND...: two ranks, one per command. bash chooses, because mpirun of Open MPI 5.0.7 ends by
# SIGSEGV with two commands.
two_commands() {
  # shellcheck disable=SC2016
  run mpirun -np 2 bash -c '
    for ((i = 1; i <= $#; i++)); do [[ ${!i} != // ]] || break; done
    if [[ $OMPI_COMM_WORLD_RANK == 0 ]]; then exec "${@:1:i - 1}"; else exec "${@:i + 1}"; fi' - "$@"
}
train() {  # RANKS OPTION...: a small run that must succeed
  local count=$1
  shift
  ranks "$count" train_cifar "${small[@]}" "$@"
  checks=$((checks + 1))
  [[ $code == 0 ]] || complain "exit code $code: mpirun -np $count ./train_cifar ${small[*]} $*"
}

# lines_with FILE WORDS: prints the lines of FILE that contain every word. Words are extended regular expressions without
# blanks. A word that is a number matches only a whole number.
lines_with() {
  local words word lines
  read -ra words <<<"$2"
  lines=$(tr -d '\0' <"$1")
  for word in "${words[@]}"; do
    [[ ! $word =~ ^[0-9]+(\.[0-9]+)?$ ]] || word="(^|[^0-9.])${word//./\\.}(\\.?\$|\\.?[^0-9.])"
    lines=$(grep -aE -- "$word" <<<"$lines") || return 1
  done
  echo "$lines"
}
# expect_error WHAT CODE WORDS: the last run ended with CODE and wrote one line to stderr, which contains every word.
expect_error() {
  checks=$((checks + 1))
  if [[ $code != "$2" ]]; then
    complain "$1: exit code $code, not $2"
  elif [[ $(wc -l <"$folder/err") != 1 ]]; then
    complain "$1: $(wc -l <"$folder/err") lines on stderr, not 1"
  elif ! lines_with "$folder/err" "$3" >/dev/null; then
    complain "$1: its line does not contain every word of '$3'"
  fi
}
# expect_line WHAT WORDS: a line of the last run's stdout contains every word.
expect_line() {
  checks=$((checks + 1))
  lines_with "$folder/out" "$2" >/dev/null || complain "$1: no line contains every word of '$2'"
}

# aside COMMAND...: runs in the background, in a separate folder. join_asides waits for all of these and counts their checks.
asides=()
aside() {
  (
    folder=$(mktemp -d -p "$folder") failures=0 checks=0 launcher=
    trap '[[ -z $launcher ]] || kill -KILL -- "-$launcher" 2>/dev/null' EXIT
    "$@"
    echo "$failures $checks" >"$folder.result"
  ) &
  asides+=($!)
}
join_asides() {
  local failed checked
  wait "${asides[@]}"
  expect "all background commands finished" test "$(find "$folder" -maxdepth 1 -name '*.result' | wc -l)" = ${#asides[@]}
  while read -r failed checked; do
    failures=$((failures + failed)) checks=$((checks + checked))
  done < <(cat "$folder"/*.result)
}

# --- runs in the background --------------------------------------------------------------------------------------------
# start RANKS OPTION...: starts a run in the background. `launcher` is its process group.
start() { launch "$1" train_cifar "${small[@]}" "${@:2}"; }
launch() {  # RANKS PROGRAM OPTION...
  local count=$1 program=$2
  shift 2
  began=$SECONDS
  : >"$folder/out"  # at once, so that no check reads the output of the run before
  set -m
  timeout --kill-after=5 $limit mpirun -np "$count" "$build/$program" "$@" >"$folder/out" 2>"$folder/raw" </dev/null &
  launcher=$!
  set +m
}
children() { grep -sl "^PPid:[[:space:]]*$1\$" /proc/[0-9]*/status | tr -dc '0-9\n'; }
pid_of_rank() {  # RANK: prints its process in the background run; fails if there is none
  local pid
  for pid in $(children "$(children "$launcher")"); do
    grep -zqsx "OMPI_COMM_WORLD_RANK=$1" "/proc/$pid/environ" || continue
    echo "$pid"
    return
  done
  return 1
}
await() {  # SECONDS COMMAND...: repeats the command until it succeeds
  local end=$((SECONDS + $1))
  shift
  while ! "$@" 2>/dev/null; do
    if ((SECONDS > end)); then complain "this did not succeed in time: $*"; return 1; fi
    sleep 0.1
  done
}
# takes_signals PID: its main() has begun, so that no request to stop is lost (SIGINT, SIGUSR1 and SIGTERM are blocked).
takes_signals() { (((0x$(awk '/^SigBlk/ { print $2 }' "/proc/$1/status") & 0x4202) == 0x4202)); }
rank_takes_signals() { takes_signals "$(pid_of_rank "$1")"; }
has_done() { grep -q "step $1/" "$folder/out"; }  # STEP: the background run has done it
# Whether the file of states (apps/step/snapshot.h) in the folder $1 contains a whole copy: one whose order is not 0.
has_state() {
  local first second
  read -r first _ _ second < <(od -An -v -w32 -tu8 -j32 -N32 "$1/states" 2>/dev/null) && ((first + second > 0))
}
ended() { ! kill -0 "$launcher"; }
collect() {  # waits for the background run; sets `code` as run() does
  code=0
  wait "$launcher" || code=$?
  launcher=
  own_words <"$folder/raw" >"$folder/err"
  ((SECONDS - began < limit)) || complain "did not end within $limit s"
}

# --- checkpoints -------------------------------------------------------------------------------------------------------
step_file() { printf '%s/checkpoints/step-%010d.h5' "$1" "$2"; }  # RUN STEP
expect_same_state() {  # WHAT FILE FILE: parameters, optimizer and averages are bitwise identical
  expect "$1" "$python" "$here/compare_checkpoints.py" "$2" "$3"
}
expect_other_state() {  # WHAT FILE FILE: they are not
  expect "$1" bash -c '! "$@" >/dev/null 2>&1' - "$python" "$here/compare_checkpoints.py" "$2" "$3"
}
expect_files() {  # WHAT FOLDER NAME...: the folder contains exactly these
  local what=$1 where=$2 found
  shift 2
  checks=$((checks + 1))
  found=$(cd "$where" && find . -mindepth 1 -printf '%P\n' | sort | tr '\n' ' ')
  [[ $found == "$(printf '%s\n' "$@" | sort | tr '\n' ' ')" || ($# == 0 && -z $found) ]] ||
    complain "$what: $where contains '$found', not '$*'"
}
