#!/usr/bin/env bash
# The folder of a run: its name, its files, which run a command resumes, and what creates nothing.
# usage: run_folder.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$folder" || exit 1
options=(--model resnet_small --global-batch 16 --threads 1 --log-every 1 --summary-every 0 --eval-every 0 --checkpoint-every 3)
stem=runs/train_cifar-resnet_small

kept() {  # RANKS OPTION...: must succeed
  run mpirun -np "$1" "$build/train_cifar" "${options[@]}" "${@:2}"
  expect "exit code $code: ${*:2}" test "$code" = 0
}
refused() {  # WHAT CODE WORDS OPTION...
  run "$build/train_cifar" "${options[@]}" "${@:4}"
  expect_error "$1" "$2" "$3"
}
expect_runs() { expect_files "$1" runs "${@:2}"; }  # WHAT FILE...
summary() { python3 -c 'import json, sys; s = json.load(open(sys.argv[1] + "/summary.json")); print(*(eval(e) for e in sys.argv[2:]))' "$@"; }
runs() { (cd runs && echo *); }

# --- its files, and a resume by the same options -------------------------------------------------------------------------
kept 2 --steps 3
expect_line "the summary names it" "^run $stem-1"
expect_files "its files" $stem-1 config.toml summary.json metrics.jsonl report.html "$(cd $stem-1 && echo events*)" checkpoints \
  checkpoints/step-0000000003.h5
expect "summary.json" test "$(summary $stem-1 's["status"]' 's["step"]' 's["ranks"]' 's["command"][:13]')" = "complete 3 2 mpirun -np 2 "
kept 2 --steps 3
expect_line "the same options: it is complete" '^complete --new'
kept 1 --steps 6
expect_line "more steps continue it" '^resumed step.3 6'
kept 1 --config $stem-1/config.toml
expect_line "config.toml has all options" '^complete step.6'
expect "one run" test "$(runs)" = train_cifar-resnet_small-1
run "$build/evaluate" --threads 1 --no-confusion $stem-1
expect_line "evaluate finds its newest checkpoint" '^step.6'

# --- other runs ----------------------------------------------------------------------------------------------------------
kept 1 --steps 3 --lr 0.2
expect_line "other options begin another run" "^note $stem-1 --lr 0\.2 0\.1"
kept 1 --steps 3 --new
expect_line "--new" "^run $stem-3"
kept 1 --steps 3 --run one
kept 1 --steps 3 --run one --new --lr 0.3
expect "their names" test "$(runs)" = "one one-1 train_cifar-resnet_small-1 train_cifar-resnet_small-2 train_cifar-resnet_small-3"
refused "a named run with another rate" 2 'runs/one --lr 0\.3 0\.1 --new' --steps 6 --run one --lr 0.3
refused "with another batch" 2 'runs/one global.batch 8 16 --new' --steps 6 --run runs/one/ --global-batch 8
refused "with another model" 2 'runs/one --model tutorial resnet_small' --run one --model tutorial --global-batch 16
mkdir mine && touch mine/notes
refused "a folder that is no run" 2 'mine notes summary.json' --run ./mine
refused "--run and --no-run" 2 '--no-run --run' --run one --no-run
refused "a file" 2 'mine/notes not.a.folder' --run ./mine/notes
expect_files "the folder stays as it was" mine notes
kept 1 --steps 1 --run slash/
expect "a path that ends with a slash" test -f slash/config.toml

# --- what creates nothing ------------------------------------------------------------------------------------------------
mkdir empty
before=$(find . ! -name out ! -name err ! -name raw | sort)
kept 1 --steps 1 --lr 0.7 --no-run
kept 2 --lr 0.7 --check
kept 1 --run other --check
kept 1 --summary
refused "no data" 65 nowhere --lr 0.7 --dataset cifar10 --data nowhere
refused "no data, in a folder of the user" 65 nowhere --dataset cifar10 --data nowhere --run empty/one
expect "nothing is new" test "$(find . ! -name out ! -name err ! -name raw | sort)" = "$before"
mkdir closed
touch closed/runs
cd closed || exit 1
refused "no folder can be created" 74 'closed/runs --run --no-run' --steps 1
cd .. || exit 1

# --- two at once, kills and stops ----------------------------------------------------------------------------------------
long=("${options[@]}" --steps 1000000 --lr 1e-6)
for i in 1 2; do
  "$build/train_cifar" "${long[@]}" >"$folder/out$i" 2>/dev/null </dev/null &
  runs[i]=$!
done
await 60 grep -q 'step 4/' out1
await 60 grep -q 'step 4/' out2
refused "a run that is being trained" 69 "--run $stem-4 in.use" "${long[@]:${#options[@]}}" --run train_cifar-resnet_small-4
folder_of() { sed -n 's/^run *kept in \([^,]*\),.*/\1/p' "out$1"; }

expect "with consecutive numbers" test "$({ folder_of 1; folder_of 2; } | sort | xargs)" = "$stem-4 $stem-5"
kill -KILL "${runs[1]}"
kill -USR1 "${runs[2]}"
wait "${runs[1]}" 2>/dev/null
stopped=0
wait "${runs[2]}" || stopped=$?
expect "exit code 75" test "$stopped" = 75
expect "a killed run has a whole summary" test "$(summary "$(folder_of 1)" 's["status"]')" = running
expect "and a stopped one" test "$(summary "$(folder_of 2)" 's["status"]')" = stopped
# --- a complete run whose last summary was not written -------------------------------------------------------------------
for status in running failed missing; do
  python3 - "$stem-1/summary.json" $status <<'END'
import json, os, sys
summary = json.load(open(sys.argv[1]))
summary.update({"status": sys.argv[2], "reason": "killed", "step": 1})
json.dump(summary, open(sys.argv[1], "w"))
if sys.argv[2] == "missing":
    os.remove(sys.argv[1])
END
  cp $stem-1/config.toml "$folder/config" && rm -f $stem-1/report.html
  kept 2 --steps 6 --run train_cifar-resnet_small-1
  expect_line "the run is complete" '^complete already'
  expect "and its summary says so, not $status" test "$(summary $stem-1 's["status"]' 's["step"]' '"reason" in s')" = "complete 6 False"
  expect "and its page" grep -q '"status":"complete"' $stem-1/report.html
  expect "with the same options" diff <(grep -v '^#' "$folder/config") <(grep -v '^#' $stem-1/config.toml)
done
cp $stem-1/summary.json "$folder/before"
kept 2 --steps 6 --run train_cifar-resnet_small-1
expect "a summary that is complete stays" cmp "$folder/before" $stem-1/summary.json

# --- a run whose checkpoints are gone, and the checkpoint of another run with the same options ---------------------------
kept 1 --steps 3 --run two
rm -r runs/one/checkpoints
kept 1 --steps 3 --run one
expect_line "a run without its checkpoints" '^note runs/one begins.again'
cp "$(step_file runs/two 3)" runs/one/checkpoints
kept 1 --steps 6 --run one
expect_line "the checkpoint of another run" '^note runs/one/summary.json another step-0000000003.h5'
kept 1 --steps 6 --run one
expect "is noted once" test -z "$(lines_with "$folder/out" '^note runs/one')"

for i in 2 1; do
  start_over=$(folder_of $i)
  kept 1 --steps 9 --lr 1e-6 --run "$start_over"
  expect_line "$start_over resumes" '^resumed step-'
done
finish
