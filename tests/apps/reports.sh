#!/usr/bin/env bash
# The output of a program: summary, log lines, metrics.jsonl, event files, help and lists. Options from a file or a checkpoint
# are the same options.
# usage: reports.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py

# --- one run with everything on ------------------------------------------------------------------------------------------
logs=$folder/logs
train 2 --steps 20 --log-every 5 --eval-every 20 --summary-every 10 --run "$logs"
for fact in 'ranks +2 on 1 host, 1 thread each; rank 0 on ' 'data +generated ' 'model +tutorial, 1068298 parameters, [0-9.]+ GFLOP per step, fp32$' \
  'batch +16 = 2 shards of 8, 1 on each rank' 'optimizer +sgd, lr 0.1 exponential, moving average 0.9999$' 'reducer +shared .* because ' \
  'progress +poll' 'buckets +[0-9]+ of [0-9.]+ to [0-9.]+ MiB' 'order +canonical' 'memory +[0-9.]+ MiB per rank = parameters' 'run +kept in .*, with a checkpoint'; do
  expect "each fact once: $fact" test "$(grep -cE "^$fact" "$folder/out")" = 1
done
expect "the summary names the script for real images" grep -q 'scripts/get_data.sh cifar10' "$folder/out"
for rank in 0 1; do expect_line "device placement" "rank.$rank: cores 1.thread"; done
for layer in conv1 pool1 norm1 conv2 norm2 pool2 local3 local4 softmax_linear; do
  expect_line "device placement" "$layer 8x parameters"
done
expect "a line at steps 1, 5, 10, 15, 20" test "$(sed -n 's|^step \([0-9]*\)/20, epoch.*|\1|p' "$folder/out" | tr '\n' ' ')" = "1 5 10 15 20 "
expect_line "the numbers of a step" '^step.10/20 epoch.0.00 loss.[0-9.]+, accuracy.[0-9]+% [0-9]+.samples/s ETA.[0-9:]+ lr.0.1 exposed.[0-9.]+%$'
expect "in 100 columns" test "$(grep '^step ' "$folder/out" | awk 'length > 100' | wc -l)" = 0
score='top-1 ([0-9.]+ %), top-5 [0-9.]+ %, loss [0-9.]+, 10000 samples'
expect_line "the evaluation" 'step.20/20 evaluation top-1 top-5 loss 10000 moving.average'
top1=$(sed -nE "s/.*$score.*/\1/p" "$folder/out")
expect_line "the end: time and speed" '^trained 20 [0-9]+:[0-9]{2} [0-9]+ samples/s'
expect_line "the end: accuracy" "^accuracy $top1 step.20 best"
expect_line "the end: the weights" '^weights sha256 [0-9a-f]{64} step.20$'
expect_line "the end: where things are" "^written $logs"
expect "the end is the end" grep -q '^written' <(tail -n 1 "$folder/out")
expect "no bar in a file" bash -c "! grep -q $'\r\\|\e' '$folder/out'"

expect "metrics.jsonl" "$python" - "$logs/metrics.jsonl" <<'PYTHON'
import json
import sys
import time

lines = [line for line in map(json.loads, open(sys.argv[1])) if line["kind"] != "host"]
trained = [line for line in lines if line["kind"] == "train"]
evaluated = [line for line in lines if line["kind"] == "evaluation"]
assert [line["step"] for line in trained] == [1, 5, 10, 15, 20], trained
assert [line["step"] for line in evaluated] == [20], evaluated
saved = [line for line in lines if line["kind"] == "checkpoint"]
assert [line["step"] for line in saved] == [20], saved
assert saved[0]["weights_sha256"] == evaluated[0]["weights_sha256"], saved
assert len(lines) == 8, lines
run = lines[0]
assert (run["kind"], run["step"], run["steps"], run["ranks"], run["global_batch"]) == ("run", 0, 20, 2, 16), run
assert (run["options"]["lr"], run["options"]["model"], run["options"]["log-every"]) == (0.1, "tutorial", 5), run
assert run["version"] and run["host"], run
times = [line["time"] for line in lines]
assert times == sorted(times) and abs(times[-1] - time.time()) < 600, times
for line in trained:
    for name in ("epoch", "loss", "images_per_s", "seconds_per_batch", "learning_rate", "exposed_communication"):
        assert isinstance(line[name], (int, float)), (name, line)
    assert 0 <= line["exposed_communication"] <= 1, line
    assert abs(line["epoch"] - line["step"] * 16 / 50000) < 1e-9, line
    assert line["penalty"] > 0, line
    assert abs(line["images_per_s"] * line["seconds_per_batch"] - 16) < 1e-6, line
# The loss is the cross-entropy, which begins near that of ten equal probabilities, without the penalty.
assert abs(trained[0]["loss"] - 2.3026) < 0.3, trained[0]
score = evaluated[0]
assert score["samples"] == 10000 and 0 <= score["top1"] <= score["top5"] <= 1 and score["loss"] > 0, score
PYTHON
expect_files "the folder of the run" "$logs" config.toml summary.json report.html evaluation.json metrics.jsonl checkpoints checkpoints/step-0000000020.h5 \
  "$(basename "$logs"/events.out.tfevents.*)"
# Two sets of 20 histograms cannot be less; that TensorBoard reads them is proven in tensorboard.sh.
expect "the event file holds histograms" test "$(stat -c %s "$logs"/events.out.tfevents.*)" -gt 20000

start 2 --run "$folder/growing"
await 30 has_done 9
size=$(stat -c %s "$folder"/growing/events.out.tfevents.*)
has_grown() { [[ $(stat -c %s "$folder"/growing/events.out.tfevents.*) -gt $size ]]; }
expect "the event file grows while the run goes on" await 30 has_grown
expect "so does metrics.jsonl" test "$(wc -l <"$folder/growing/metrics.jsonl")" -ge 9
kill -TERM "$(pid_of_rank 0)"
collect

if command -v script >/dev/null; then
  COLUMNS=80 run script -qec "stty cols 80; '$build/train_cifar' ${small[*]} --steps 12 --log-every 6 --eval-every 12" /dev/null
  expect "a bar with the time left on a terminal" grep -qE '\[=+>? *\] [0-9]+/12 ETA [0-9:]+ loss [0-9.]+' "$folder/out"
  expect "which moves in an evaluation" test "$(grep -oE 'evaluation [0-9]+ %' "$folder/out" | sort -u | wc -l)" -ge 2
  tr '\r' '\n' <"$folder/out" | grep -E 'step [0-9]+/' >"$folder/shown"
  expect "three lines of steps and one of the evaluation" test "$(wc -l <"$folder/shown")" = 4
  expect "they fit 80 columns" test "$(sed 's/\x1b\[K//g' "$folder/shown" | awk 'length > 79' | wc -l)" = 0
  expect "with the loss and the accuracy" grep -qE 'step 6/12, epoch 0.00, loss [0-9.]+, accuracy [0-9]+%' "$folder/shown"
  expect "and the result of the evaluation" grep -qE 'step 12/12 evaluation: top-1 .*, top-5 .*, loss [0-9]' "$folder/shown"
fi

# --- --quiet -------------------------------------------------------------------------------------------------------------
small_data "$folder/data"
train 2 --dataset hdf5 --data "$folder/data/small" --model resnet_small --steps 3 --log-every 1 --eval-every 3 --quiet --run "$folder/quiet"
expect "--quiet prints the result" test "$(cut -c1-8 "$folder/out" | tr '\n' ' ')" = "accuracy written  "
expect "no warning is not a line" test "$(wc -c <"$folder/err")" = 0
expect "the files are whole" test "$(grep -c '"kind":"train"' "$folder/quiet/metrics.jsonl")" = 3
train 2 --steps 1 --quiet --threads 16
expect_error "a warning is on stderr" 0 '^train_cifar: warning: threads'
expect "and not on stdout" test "$(grep -c . "$folder/out")" = 0
train 1 --quiet --check
expect "--quiet --check prints its result" test "$(wc -l <"$folder/out")" = 1

# --- logs are never lost -------------------------------------------------------------------------------------------------
train 1 --steps 2 --run "$folder/twice"
cp "$folder/twice/metrics.jsonl" "$folder/first"
rm "$folder/twice/checkpoints/"*
train 1 --steps 1 --run "$folder/twice"
expect_line "a second run names the folder of the first logs" "^logs $folder/twice/earlier-1"
expect "they are whole" cmp "$folder/first" "$folder/twice/earlier-1/metrics.jsonl"
expect "with their event file" test "$(find "$folder/twice/earlier-1" -name 'events.*' | wc -l)-$(find "$folder/twice" -maxdepth 1 -name 'events.*' | wc -l)" = 1-1
expect "the second has its own" test "$(grep -c '"kind":"train"' "$folder/twice/metrics.jsonl")" = 1
mkdir "$folder/failed"
run "$build/train_cifar" --steps 1 --run "$folder/failed" --resume "$folder/none.h5"
expect_files "a start that fails leaves no logs" "$folder/failed"

# --- instead of training -----------------------------------------------------------------------------------------------
ranks 2 train_cifar --help
expect "help is printed once" test "$code-$(grep -c '^Usage:' "$folder/out")" = 0-1
ranks 2 train_cifar --help-all
cp "$folder/out" "$folder/help"
expect "all help is printed once" test "$code-$(grep -c '^Usage:' "$folder/help")" = 0-1
for group in Data Model Training 'Learning rate' Ranks Reports Checkpoints 'Instead of training'; do
  expect "help has the group $group" grep -qx "$group:" "$folder/help"
done
for program in train_cifar evaluate; do
  # MPI cannot start here, and without a launcher it is not needed.
  run env -u OMPI_COMM_WORLD_SIZE OPAL_PREFIX=/nowhere "$build/$program" --help
  expect "$program --help without MPI" test "$code-$(grep -c '^Usage:' "$folder/out")" = 0-1
  expect "$program --help fits 60 lines of 100 columns" awk 'length > 100 || NR > 60 { exit 1 }' "$folder/out"
done
run env SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 OPAL_PREFIX=/nowhere "$build/train_cifar" --help
expect "a task other than SLURM's first leaves --help to that" test "$code-$(wc -c <"$folder/out")" = 0-0
for what in --list --version; do
  run env OPAL_PREFIX=/nowhere "$build/train_cifar" $what
  expect "$what without MPI" test "$code-$(grep -cE '^(models|train_cifar [0-9].*)$' "$folder/out")" = 0-1
  expect "$what fits 80 columns" test "$(awk 'length > 79' "$folder/out" | wc -l)" = 0
done
for program in train_cifar evaluate; do
  run bash -c '"$@" >/dev/full' - "$build/$program" --help
  expect_error "$program: help that cannot be written" 1 "^$program: No.space.left.on.device"
done
ranks 2 train_cifar --list
expect "the lists are printed once" test "$code-$(grep -c '^models$' "$folder/out")" = 0-1
for registry in models 'data sets' optimizers 'learning-rate schedules' reducers 'progress policies' devices convolutions; do expect_line "registry" "^$registry\$"; done
expect "all other lines are entries with a description" test "$(grep -cvE '^[a-z -]+$|^  [a-z0-9_]+ +[a-zA-Z-]|^ {21}[^ ]' "$folder/out")" = 0
ranks 2 train_cifar --version
expect_line "version" '^train_cifar [0-9]+\.[0-9]+\.[0-9]+'
expect "version is printed once" test "$(wc -l <"$folder/out")" = 1
ranks 1 evaluate --version
expect_line "of which program" '^evaluate [0-9]+\.[0-9]+\.[0-9]+'

train 1 --check --lr-schedule cosine --lr-end 0.01 --warmup-epochs 0.1 --crop-area 0.5 --target 5 --keep 5 --summary-every 7
expect_line "the end of the learning rate and the warm-up" '^optimizer sgd lr.0.1 cosine 0.01 warm-up'
for idle in --crop-area --target --keep; do expect_line "an idle option" "^note $idle"; done
expect_line "an idle option" '^note --summary-every --no-run'
expect "other options have no note" test "$(grep -c '^note.*does nothing' "$folder/out")" = 4
train 1 --check --lr-end 0.01 --lr-schedule exponential:0.5@350
expect_line "an idle end" '^note --lr-end --lr-schedule cosine linear'
expect "other options have no note" test "$(grep -c '^note.*does nothing' "$folder/out")" = 1
train 1 --check --seed 18446744073709551615
expect "the largest seed is a seed" test "$code" = 0
train 2 --check --steps 3 --run "$folder/check"
expect_line "--check ends well" '^all.is.well'
expect "--check writes nothing" test ! -e "$folder/check"
expect "--check trains nothing" bash -c "! grep -q 'step 1/' '$folder/out'"

# --- options from a file and from a checkpoint ---------------------------------------------------------------------------
options=(--model resnet_small --steps 3 --global-batch 12 --shards 2 --momentum 0.9 --nesterov --lr 0.05 --lr-schedule cosine --lr-end 0.001 --seed 7 --keep 1
  --checkpoint-every 2 --reducer tree --threads 1 --eval-every 0 --summary-every 0 --precision fp32 --weight-decay 1e-4)
cat >"$folder/run.toml" <<TOML
# A run in a file.
model = "resnet_small"
steps = 3
global-batch = 12
shards = 2
momentum = 0.9
nesterov = true
lr = 0.05
lr-schedule = "cosine"
lr-end = 0.001
seed = 7
keep = 1
checkpoint-every = 2
reducer = "tree"
threads = 1
eval-every = 0
summary-every = 0
precision = "fp32"
weight-decay = 1e-4
TOML
ranks 2 train_cifar "${options[@]}" --run "$folder/line"
expect "from the command line" test "$code" = 0
ranks 2 train_cifar --config "$folder/run.toml" --run "$folder/file"
expect "from a file" test "$code" = 0
expect_same_state "a file equals the command line" "$(step_file "$folder/line" 3)" "$(step_file "$folder/file" 3)"
expect_files "--keep 1 keeps one" "$folder/line/checkpoints" step-0000000003.h5
ranks 2 train_cifar --config "$folder/run.toml" --steps 2 --run "$folder/wins"
expect_files "the command line wins" "$folder/wins/checkpoints" step-0000000002.h5

saved() { "$python" "$here/facts.py" "$1" options | "$python" -c 'import json, sys
for name, value in json.load(sys.stdin).items(): print(name, "=", json.dumps(value))'; }
saved "$(step_file "$folder/line" 3)" >"$folder/saved.toml"
expect "the options are in the checkpoint" test "$(wc -l <"$folder/saved.toml")" -ge 20
ranks 2 train_cifar --config "$folder/saved.toml" --run "$folder/again"
expect "the options of a checkpoint are a config file" test "$code" = 0
expect_same_state "which gives the same run" "$(step_file "$folder/line" 3)" "$(step_file "$folder/again" 3)"
saved "$(step_file "$folder/again" 3)" >"$folder/again.toml"
expect "and the same options" cmp "$folder/saved.toml" "$folder/again.toml"
while read -r name _; do
  expect "the help has --$name" grep -qE -- "^ +(-., ?)?--$name( |\$)" "$folder/help"
done <"$folder/saved.toml"

# The same for a run of defaults: options that were not set are not fixed.
ranks 1 train_cifar --steps 1 --eval-every 0 --run "$folder/default"
saved "$(step_file "$folder/default" 1)" >"$folder/default.toml"
ranks 2 train_cifar --config "$folder/default.toml" --check
expect "the options of a run of defaults are a config file" test "$code" = 0
expect_line "its batch is shared out anew" '^batch 128 2.shards 64'
finish
