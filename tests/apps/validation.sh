#!/usr/bin/env bash
# A validation set: evaluations use it, best.h5 is the best checkpoint, and its weights meet the test set once, at the end.
# Stops and kills in every phase change nothing.
# usage: validation.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
limit=200  # a test set of a second, on a busy machine

mkdir "$folder/data" "$folder/few"
"$python" - "$folder/data" <<'END'
import sys
import h5py
import numpy
random = numpy.random.RandomState(1)
for part, count in (("train", 400), ("test", 12000), ("few", 600)):
    labels = numpy.arange(count) % 6
    images = random.randint(0, 60, (count, 12, 12, 1)) + 30 * labels[:, None, None, None]
    with h5py.File(f"{sys.argv[1]}/{part}.h5", "w") as file:
        file["images"], file["labels"] = images.astype("uint8"), labels
END
ln "$folder/data/train.h5" "$folder/few/train.h5"
mv "$folder/data/few.h5" "$folder/few/test.h5"
data=(--dataset hdf5 --data "$folder/data" --model resnet20 --shards 2 --ema 0 --keep 1 --lr-schedule constant)
options=("${data[@]}" --lr 0.015 --eval-every 2 --validation 0.2)
in_folder() { echo "--run $folder/$1"; }
step_of() { "$python" -c 'import h5py, sys; print(h5py.File(sys.argv[1], "r").attrs["step"])' "$1"; }

# shellcheck disable=SC2046
{
  train 2 "${options[@]}" --steps 12 $(in_folder whole)
  expect_line "evaluations use the validation set" 'step.2/12 evaluation top-1 validation.set'
  best=$(step_of "$folder/whole/checkpoints/best.h5")
  expect "some evaluations are better and some are not" test "$best" -gt 2 -a "$best" -lt 12
  expect_line "the test set is evaluated once, with the best weights" "step.12/12 test 12000.samples best step.$best\$"
  expect_files "the best is kept beside the newest" "$folder/whole/checkpoints" best.h5 step-0000000012.h5
  train 2 "${options[@]}" --steps 12 $(in_folder whole)
  expect_line "then it is complete" '^complete'

  # Killed before best.h5 got its name.
  train 1 "${options[@]}" --steps "$best" $(in_folder parts)
  rm "$folder/parts/checkpoints/best.h5"
  # Stopped at some step, killed and stopped while the test set is evaluated.
  start 2 "${options[@]}" --steps 12 $(in_folder parts)
  await 60 has_done $((best + 1))
  kill -USR1 "$(pid_of_rank 1)"
  collect
  expect "a stop" test "$code" = 75
  expect "the best checkpoint has its name again" test "$(step_of "$folder/parts/checkpoints/best.h5")" = "$best"
  for signal in KILL TERM; do
    # A best.h5 that is damaged is an error after the kill, and the next start tests again.
    if [[ $signal == TERM ]]; then
      cp "$folder/parts/checkpoints/best.h5" "$folder/whole.h5"
      "$python" -c 'import sys; f = open(sys.argv[1], "r+b"); m = f.seek(0, 2) // 2; f.seek(m); b = f.read(1); f.seek(m); f.write(bytes([b[0] ^ 1]))' \
        "$folder/parts/checkpoints/best.h5"
      ranks 2 train_cifar "${small[@]}" "${options[@]}" --steps 12 $(in_folder parts)
      expect_error "a damaged best.h5" 1 'best\.h5 damaged last.weights'
      expect "no result is kept" bash -c "! grep -q '\"test\"' '$folder/parts/metrics.jsonl'"
      mv "$folder/whole.h5" "$folder/parts/checkpoints/best.h5"
    fi
    start 2 "${options[@]}" --steps 12 $(in_folder parts)
    await 60 grep -q 'step 12/12 evaluation\|^resumed .* step 12 ' "$folder/out"
    await 60 rank_takes_signals 1
    sleep 0.1
    kill -$signal "$(pid_of_rank 1)"
    collect
    expect "stopped before the test set was evaluated" bash -c "! grep -q ' test: ' '$folder/out'"
  done
  expect_error "SIGTERM" 75 'stopped.on.request 12 test.set'
  train 1 "${options[@]}" --steps 12 $(in_folder parts)
  expect_line "the test set is evaluated, and no step is trained" '^trained 0'
  expect_line "the best weights are tested" "step.12/12 test 12000.samples best step.$best\$"
  expect_same_state "best.h5" "$folder/whole/checkpoints/best.h5" "$folder/parts/checkpoints/best.h5"
  expect "metrics are those of a run that never stopped" "$python" - "$folder/whole/metrics.jsonl" \
    "$folder/parts/metrics.jsonl" "$best" <<'END'
import json
import sys

def numbers(path):
    with open(path) as lines:
        return [[line.get(name) for name in ("kind", "step", "loss", "top1", "samples")]
                for line in map(json.loads, lines) if line["kind"] in ("evaluation", "test")]

one, other = map(numbers, sys.argv[1:3])
if one != other or [kind for kind, *_ in one].count("test") != 1:
    sys.exit("%s\n%s" % (one, other))
best = max((line for line in one if line[0] == "evaluation"), key=lambda line: (line[3], -line[2]))
if best[1] != int(sys.argv[3]):
    sys.exit("best.h5 is of step %s, not of %s" % (sys.argv[3], best))
END

  # More steps: the test set is evaluated again at the new end.
  train 2 "${options[@]}" --steps 13 $(in_folder whole)
  expect_line "at the new end" 'step.13/13 test'
}
ranks 1 train_cifar "${small[@]}" "${data[@]}" --validation 0.3 --steps 14 --resume "$(step_file "$folder/whole" 13)"
expect_error "another share is other data" 2 'step-0000000013.h5 validation samples'

# --- patience ------------------------------------------------------------------------------------------------------------
data=("${data[@]/#"$folder/data"/"$folder/few"}")
patient=("${data[@]}" --lr 1e-9 --eval-every 1 --validation 0.2 --steps 100 --patience 3 --run "$folder/patient")
train 2 "${patient[@]}"
expect_line "the run ends" '^patience accuracy 3.evaluations'
expect_line "after three more evaluations" '^trained 4.steps'
expect "its summary has the reason" grep -q '"reason": "no better accuracy in 3 evaluations"' "$folder/patient/summary.json"
train 1 "${patient[@]}"
expect_line "then it is complete" '^complete step-0000000004.h5 --patience'
ranks 2 train_cifar "${small[@]}" "${data[@]}" --patience 3 --eval-every 1
expect_error "--patience without a validation set" 2 '--patience --validation'

# Classes and their tables.
ranks 1 evaluate --threads 1 --data "$folder/few" "$folder/whole/checkpoints/best.h5"
expect_line "precision and recall" '^class precision recall'
expect "a row for each class, with all its samples" test "$(grep -cE '^[0-5] .* 100$' "$folder/out")" = 6
finish
