#!/usr/bin/env bash
# Unequal classes: weights and sampling train the same on any number of ranks and after a resume. Each --best has the best.h5 of
# its measure, --keep-best keeps more of them, and numpy finds the same measures from the predictions.
# usage: unequal_classes.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py

mkdir "$folder/data"
"$python" - "$folder/data" <<'END'
import sys
import h5py
import numpy
random = numpy.random.RandomState(1)
for part, counts in (("train", (300, 80, 20)), ("test", (60, 30, 10))):
    labels = numpy.repeat(numpy.arange(3), counts)
    images = random.randint(0, 90, (len(labels), 12, 12, 1)) + 25 * labels[:, None, None, None]
    with h5py.File(f"{sys.argv[1]}/{part}.h5", "w") as file:
        file["images"], file["labels"] = images.astype("uint8"), labels
END
data=(--dataset hdf5 --data "$folder/data" --model resnet_small --shards 2 --ema 0.9 --lr-schedule constant --lr 0.03)
newest() { echo "$folder/$1/checkpoints/step-0000000012.h5"; }
differ() { ! "$python" "$here/compare_checkpoints.py" "$1" "$2" &>"$folder/compared"; }

# --- training --------------------------------------------------------------------------------------------------------------
train 1 "${data[@]}" --steps 12 --run "$folder/plain"
expect_line "a note counts the classes" '^note 300 20 --class-weights'
printf 'class,weight\n2,6.6666665\n0,0.44444445\n1,1.6666666\n' >"$folder/weights.csv"
same_on_any_ranks() {  # NAME OPTION...: two ranks, and one that is stopped after step 5
  local name=$1
  shift
  train 2 "${data[@]}" "$@" --steps 12 --run "$folder/$name"
  train 1 "${data[@]}" "$@" --steps 5 --run "$folder/$name-parts"
  train 1 "${data[@]}" "$@" --steps 12 --run "$folder/$name-parts"
  expect_same_state "$name" "$(newest "$name")" "$(newest "$name-parts")"
  expect "$name changes the weights" differ "$(newest "$name")" "$(newest plain)"
}
same_on_any_ranks weighted --class-weights balanced --label-smoothing 0.1 --mixup 0.2
expect_line "the weights in use" '^loss .*class weights 0.4444 1.667 6.667'
same_on_any_ranks sampled --sampling balanced --mixup 0.2
train 2 "${data[@]}" --class-weights "$folder/weights.csv" --label-smoothing 0.1 --mixup 0.2 --steps 12 --run "$folder/listed"
expect_same_state "a file of the balanced weights" "$(newest weighted)" "$(newest listed)"

echo 9,1 >>"$folder/weights.csv"
ranks 2 train_cifar "${small[@]}" "${data[@]}" --class-weights "$folder/weights.csv"
expect_error "a file of another class" 2 'weights.csv line.5 9 class'
ranks 2 train_cifar "${small[@]}" "${data[@]}" --class-weights "$folder/none.csv"
expect_error "no file" 2 'none.csv'

# --- evaluation ------------------------------------------------------------------------------------------------------------
measured=("${data[@]}" --validation 0.3 --eval-every 1 --steps 12 --checkpoint-every 5 --keep 1 --keep-best 3)
for measure in accuracy loss f1 balanced-accuracy auc; do
  train 2 "${measured[@]}" --best $measure --run "$folder/$measure"
  runs=("$folder/$measure")
  if [[ $measure == @(loss|auc) ]]; then  # a resume: the least and the greatest is the best
    for steps in 7 12; do train 1 "${measured[@]}" --best $measure --run "$folder/$measure-parts" --steps $steps; done
    runs+=("$folder/$measure-parts")
  fi
  expect "the best by $measure" "$python" - "$measure" "${runs[@]}" <<'END'
import json
import os
import sys
import h5py
measure, *folders = sys.argv[1:]
name = {"accuracy": "top1", "balanced-accuracy": "balanced_accuracy"}.get(measure, measure)
found = []
for folder in folders:
    rows = [row for row in map(json.loads, open(f"{folder}/metrics.jsonl")) if row["kind"] == "evaluation"]
    found.append([[row["step"], row["top1"], row["loss"], row["f1"], row["balanced_accuracy"], row["auc"]] for row in rows])
    rows.sort(key=lambda row: (row[name] if measure == "loss" else -row[name], row["loss"], row["step"]))
    files = {file: h5py.File(f"{folder}/checkpoints/{file}", "r").attrs for file in os.listdir(f"{folder}/checkpoints")}
    assert files["best.h5"]["step"] == rows[0]["step"], (files["best.h5"]["step"], rows)
    kept = {file: attributes["step"] for file, attributes in files.items() if file.startswith("best-")}
    assert kept == {f"best-{row['step']:010}.h5": row["step"] for row in rows[:3]}, (kept, rows)
    assert sum(file.startswith("step-") for file in files) == 1, files
    best = json.load(open(f"{folder}/summary.json"))["best"]
    assert best["step"] == rows[0]["step"] and best["by"] == measure and best["value"] == rows[0][name], best
assert found[0] == found[-1] and len({tuple(row[1:]) for row in found[0]}) > 3, found
END
done
expect_line "the best is named" '^accuracy best auc'
run "$build/evaluate" "$folder/f1" --no-confusion --predictions "$folder/p.csv"
expect_line "its reason" 'best.h5 best f1'
expect "numpy finds the same measures" "$python" - "$folder/f1/evaluation.json" "$folder/p.csv" <<'END'
import csv
import json
import sys
import numpy
found = json.load(open(sys.argv[1]))
rows = list(csv.reader(open(sys.argv[2])))[1:]
truth, guess = (numpy.array([int(row[i]) for row in rows]) for i in (1, 2))
p = numpy.array([[float(value) for value in row[3:6]] for row in rows])
right = [((truth == c) & (guess == c)).sum() for c in range(3)]
f1 = [2 * right[c] / ((truth == c).sum() + (guess == c).sum()) for c in range(3)]
recall = [right[c] / (truth == c).sum() for c in range(3)]
above = lambda c: numpy.sign(p[truth == c, c][:, None] - p[truth != c, c][None, :])
auc = [(above(c).mean() + 1) / 2 for c in range(3)]
for name, values in (("f1", f1), ("auc", auc), ("recall", recall)):
    assert numpy.allclose(found["measures"][f"{name}_by_class"], values, atol=0.004), (name, values, found["measures"])
assert abs(found["measures"]["balanced_accuracy"] - numpy.mean(recall)) < 1e-9
for c, curve in enumerate(found["curves"]):
    assert curve[-1] == [int((truth == c).sum()), int((truth != c).sum())], curve
END
kept=$(basename "$(find "$folder/f1/checkpoints" -name 'best-*' | sort | head -n 1)" .h5)
run "$build/evaluate" "$folder/f1" --no-confusion --which $((10#${kept#best-}))
expect_line "a checkpoint that is only among the best" "$kept among.the.best"
run "$python" "$here/../../scripts/print_weights.py" "$folder/f1" --which $((10#${kept#best-}))
expect "in Python too" grep -q "$kept.*among the best" "$folder/out"
ranks 1 train_cifar "${small[@]}" "${data[@]}" --keep-best 2
expect_error "without a validation set" 2 '--keep-best --validation'
finish
