#!/usr/bin/env bash
# scripts/sweep_runs.py: grids and random values, failed, stopped and complete runs, and mistakes in its file.
# usage: sweep.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
python3 -c 'import tomllib' 2>/dev/null || skip "python3 is older than 3.11"
need_h5py
cd "$folder" || exit 1
small_data data
export LOCKSTEP_BUILD=$build
sweep() { run "$here/../../scripts/sweep_runs.py" "$@"; }
write() { printf '%s\n' "$@" >"$file.toml"; }  # LINES...
begun() { grep -c '^begins' out; }

# --- a grid with a run that fails ----------------------------------------------------------------------------------------
file=rates
small=('dataset="hdf5"' 'data="data/small"' model='"resnet20"' global-batch=16 threads=1 log-every=1 summary-every=0 steps=3)
write 'ranks = 1' 'at-once = 2' '[options]' "${small[@]}" '[sweep]' 'lr = [0.001, 1e15]' 'momentum = [0, 0.9]'
sweep rates.toml --print
expect "--print only prints" test "$code-$(wc -l <out)-$(find runs 2>/dev/null)" = 0-4-
sweep rates.toml
expect "a failure is exit code 1" test "$code-$(begun)" = 1-4
expect "it names the failed runs" lines_with err '2 4 failed: lr=1e15,momentum=0, lr=1e15,momentum=0.9'
expect_line "and why" '^failed lr=1e15,momentum=0: exit.code'
expect_line "the best run is named" '^best lr=0\.001 accuracy step.3'
best=$(sed -n 's/^best *\([^:]*\):.*/\1/p' out)
expect_line "and its report" "runs/rates/$best/"
expect "a failed run is not also missing" test "$(grep -c '^missing' out)" = 0
sweep rates.toml --table
expect "later it is" test "$(grep -c '^missing lr=1e15,momentum=.*: failed' out)" = 2
touch again
sweep rates.toml --quiet
expect "--quiet prints failures and the table" test "$code-$(begun)-$(grep -c '^failed' out)-$(grep -c '^best    ' out)" = 1-0-2-1
expect "complete runs do not run again" test "$(find runs/rates -name '*.log' -newer again | sort | tr '\n' ' ')" = \
  'runs/rates/lr=1e15,momentum=0.9.log runs/rates/lr=1e15,momentum=0.log '
write 'ranks = 1' '[options]' "${small[@]}" '[sweep]' 'lr = [0.001]' 'momentum = [0, 0.9]'
sweep rates.toml --table
expect "a smaller grid has its runs" test "$code-$(grep -c '^missing' out)" = 0-0
sed -i s/steps=3/steps=4/ rates.toml
sweep rates.toml
expect "more steps continue them" test "$code-$(begun)-$(grep -l '^resumed' runs/rates/*.log | wc -l)" = 0-2-2

words=("${small[@]//\"/}")
"$build/train_cifar" "${words[@]/#/--}" --steps 5 --lr 0.001 --momentum 0 --run "runs/rates/lr=0.001,momentum=0" >/dev/null 2>&1
write 'ranks = 1' '[sweep]' 'lr = [0.001]' 'momentum = [0, 0.9]' '[options]' 'steps = 4' "${small[@]/steps=3/}"
sweep rates.toml --table
expect "a longer run and another order are complete" test "$code-$(grep -c '^missing' out)" = 0-0
echo '[]' >"runs/rates/lr=0.001,momentum=0/summary.json"
sweep rates.toml --table
expect_line "a damaged summary.json" '^missing lr=0.001,momentum=0: not.begun'

printf '{"status": "\\u001b[31m\\u009b31m", "deep": 1, "best": {"top1": 0.5, "step": "\\u001b[32m"}}' >"runs/rates/lr=0.001,momentum=0/summary.json"
sweep rates.toml --table
expect_line "control characters do not reach the terminal" '^missing lr=0.001,momentum=0: \?\[31m\?31m'
expect "nor through the accuracy" test "$(grep -c $'[\x1b\x9b]' out)" = 0
python3 -c 'print("{\"status\": " + "[" * 300000)' >"runs/rates/lr=0.001,momentum=0/summary.json"
sweep rates.toml --table
expect_line "a summary.json that is too deep" '^missing lr=0.001,momentum=0: not.begun'

# Runs with --best f1: accuracy and F1 disagree about both the best rate and the best run.
file=means
write 'ranks = 1' '[options]' 'best = "f1"' '[sweep]' 'lr = [0.01, 0.1]' 'fold = ["1/2", "2/2"]'
sweep means.toml --print
python3 - out <<'PYTHON'
import json, pathlib, re, sys
values = {"0.01": (0.7, 0.5), "0.1": (0.6, 0.6)}
for folder, lr, fold in re.findall(r"--run=(\S+) .*--lr=(\S+) --fold=(\S+)", open(sys.argv[1]).read()):
    accuracy, f1 = (value + (0.02 if fold == "2/2" else 0) for value in values[lr])
    pathlib.Path(folder).mkdir(parents=True)
    best = {"top1": accuracy, "loss": 1.0, "step": 3, "by": "f1", "value": f1}
    options = {"best": "f1", "lr": float(lr), "fold": fold}
    pathlib.Path(folder, "summary.json").write_text(json.dumps({"status": "complete", "options": options, "best": best}))
PYTHON
sweep means.toml --table
expect "means by what is best" test "$(grep '^mean  ' out | tr -s ' ' | tr '\n' '|')" = \
  'mean lr=0.1: f1 61.00 % +- 1.41 % of 2 runs|mean lr=0.01: f1 51.00 % +- 1.41 % of 2 runs|'
expect_line "and the best mean" '^best lr=0.1: mean.of.2'
expect_line "and its report" 'report.*runs/means/lr=0.1,fold=2of2$'
expect_line "the table has both" '^best.by f1.50.00 f1.62.00'
sed -i 's/lr = .*/lr = [0.1]/' means.toml
sweep means.toml --table
expect "no fold is better than another" test "$(grep -c '^mean  ' out)-$(grep -c '^best  ' out)" = 1-0

file=names
write 'ranks = 1' '[options]' "${small[@]}" '[sweep]' 'group = ["conv/*:lr=0", "conv:*:lr=0"]'
sweep names.toml --print
expect "each value has a folder" test "$code-$(grep -o 'run=[^ ]*' out | sort -u | wc -l)" = 0-2
file=log
write 'ranks = 1' '[options]' "${small[@]}" '[sweep]' 'lr = [0.1, 0.2]'
mkdir -p runs/log/lr=0.1.log
sweep log.toml
expect "a log that cannot be written" test "$code-$(lines_with out '^failed lr=0.1: lr=0\.1\.log' | wc -l)-$(grep -c '^ended' out)" = 1-1-1
file=hopeless
write 'ranks = 1' 'at-once = 1' '[options]' "${small[@]/data\/small/data\/none}" '[sweep]' 'lr = [0.1, 0.2, 0.3, 0.4]'
sweep hopeless.toml
expect "two equal failures end a sweep" test "$code-$(begun)-$(grep -c '^failed' out)-$(grep -c '^missing' out)" = 1-2-2-2
file=words
write 'ranks = 1' '[options]' "${small[@]/small\"/folder is in use by another\"}" '[sweep]' 'lr = [0.1]'
sweep words.toml
expect "the words of an error decide nothing" test "$code-$(grep -c '^waits' out)-$(grep -c '^failed .* is in use by ' out)" = 1-0-1

# --- Ctrl-C --------------------------------------------------------------------------------------------------------------
file=long
write 'ranks = 2' '[options]' "${small[@]/steps=3/steps=1000000}" '[sweep]' 'lr = [1e-6, 2e-6]'
"$here/../../scripts/sweep_runs.py" long.toml >first 2>first.err &
sweeping=$!
await 60 grep -qs 'step 3/' runs/long/lr=1e-6.log
sweep long.toml
expect_error "a second sweep" 1 'another runs/long'
kill -INT $sweeping
code=0
wait $sweeping || code=$?
mv first out && mv first.err err
expect_error "Ctrl-C" 75 'same command'
expect "after a checkpoint" grep -q '"status": "stopped"' runs/long/lr=1e-6/summary.json
expect "no other run begins" test "$(begun)-$(ls runs/long)" = "1-$(printf 'lr=1e-6\nlr=1e-6.log')"

# --- a sweep that was killed: its runs go on, and the next one waits for them -----------------------------------------------
file=killed
write 'ranks = 1' '[options]' "${small[@]/steps=3/steps=40}" '[sweep]' 'lr = [1e-6, 2e-6]'
"$here/../../scripts/sweep_runs.py" killed.toml >first 2>&1 &
sweeping=$!
await 60 grep -qs 'step 1/' runs/killed/lr=1e-6.log
pid=$(sed -n 's/^pid = //p' runs/killed/lr=1e-6/run.lock.1)
kill -STOP "$pid"
kill -KILL $sweeping
wait $sweeping 2>/dev/null
(await 20 grep -q "^waits" out; kill -CONT "$pid") &
sweep killed.toml
expect "a run that is held is no failure" test "$code-$(grep -c '^waits *lr=1e-6: .* in use by' out)-$(begun)-$(grep -c '^ended' out)" = 0-1-2-2
expect "it was trained once" test "$(grep -c '^trained' runs/killed/lr=1e-6.log)-$(grep -c '^failed' out)" = 1-0

# --- random values -------------------------------------------------------------------------------------------------------
file=random
write 'search = "random"' 'runs = 5' '[sweep]' 'lr = {min = 1e-3, max = 1, log = true}' 'batch = {min = 8, max = 64}' \
  'optimizer = ["sgd", "adam"]'
sweep random.toml --print
cp out first
sweep random.toml --print
expect "the same seed has the same runs" cmp first out
expect "5 of them differ" test "$(sort -u out | wc -l)" = 5

# --- the script of a job array ---------------------------------------------------------------------------------------------
write '[sweep]' 'lr = [1]' '[slurm]' 'comment = "a\ntouch owned"'
sweep random.toml --slurm --print
expect "a line break begins no command" test "$code-$(grep -c '^touch' out)" = 0-0

# --- mistakes, with file and key -----------------------------------------------------------------------------------------
wrong() {  # KEY LINES...
  write "${@:2}"
  sweep $file.toml
  expect_error "${*:2}" 2 "^sweep_runs: $file.toml: $1"
}
file=wrong
wrong 'line 1' 'lr ='
wrong learning 'learning = 1' '[sweep]' 'lr = [1]'
wrong ranks 'ranks = 0' '[sweep]' 'lr = [1]'
wrong search 'search = "bayes"' '[sweep]' 'lr = [1]'
wrong runs 'runs = 3' '[sweep]' 'lr = [1]'
wrong sweep '[options]' 'lr = 1'
wrong 'sweep\.lr' '[sweep]' 'lr = []'
wrong 'sweep\.lr' '[sweep]' 'lr = {min = 1, max = 2}'
wrong 'sweep\.lr' '[options]' 'lr = 1' '[sweep]' 'lr = [1]'
wrong 'sweep\.lr.*twice' '[sweep]' 'lr = [1, 1]'
wrong 'sweep\.--lr' '[sweep]' '"--lr" = [1]'
wrong 'sweep\.lr' 'search = "random"' 'runs = 1' '[sweep]' 'lr = {min = nan, max = 1}'
wrong 'sweep\.batch' 'search = "random"' 'runs = 1' '[sweep]' "batch = {min = 1, max = 1$(printf '%0400d' 0)}"
many=$(seq -s, 101)
wrong 'sweep.*10201' '[sweep]' "batch = [$many]" "seed = [$many]"
wrong 'sweep\.lr.*ls' 'program = "ls"' '[sweep]' 'lr = [1]'
wrong 'sweep\.run' '[sweep]' 'run = ["a"]'
wrong 'options\.momentun.*--momentum' '[options]' 'momentun = 1' '[sweep]' 'lr = [1]'
expect "nothing was begun" test ! -e runs/wrong
finish
