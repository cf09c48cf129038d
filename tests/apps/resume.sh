#!/usr/bin/env bash
# A resumed run is bitwise identical to one that never stopped: after a planned end, a signal, a killed rank or a damaged
# file, and on another number of ranks.
# usage: resume.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
state=(--shards 4 --momentum 0.9 --nesterov --ema 0.99)

# STEPS: a run of so many steps on one rank that never stopped; its folder is never/STEPS.
never_stopped() {
  [[ -e $folder/never$1 ]] || train 1 "${state[@]}" --steps "$1" --run "$folder/never$1"
}
# WHAT NAME STEPS: the run in folder NAME ended at STEPS like one that never stopped, and so did its metrics.
expect_undisturbed() {
  never_stopped "$3"
  expect_same_state "$1" "$(step_file "$folder/never$3" "$3")" "$(step_file "$folder/$2" "$3")"
  expect "$1: metrics.jsonl has every step once, with the same losses" "$python" - "$3" \
    "$folder/never$3/metrics.jsonl" "$folder/$2/metrics.jsonl" <<'PYTHON'
import json
import sys

def losses(path):
    with open(path) as lines:
        return [(o["step"], o["loss"], o["penalty"], o["epoch"], o["learning_rate"]) for o in map(json.loads, lines)
                if o["kind"] == "train"]

one, other = losses(sys.argv[2]), losses(sys.argv[3])
if [step for step, *_ in other] != list(range(1, int(sys.argv[1]) + 1)):
    sys.exit("steps: %s" % [step for step, *_ in other])
if one != other:
    sys.exit("losses differ:\n%s\n%s" % (one, other))
PYTHON
}

# --- a planned end, then more steps, on 1 -> 2 -> 4 ranks ----------------------------------------------------------------
train 1 "${state[@]}" --steps 5 --run "$folder/longer"
train 2 "${state[@]}" --steps 9 --run "$folder/longer"
expect_line "the summary names the checkpoint" '^resumed /checkpoints/step-0000000005\.h5 step.5 9'
train 4 "${state[@]}" --steps 12 --run "$folder/longer"
expect_undisturbed "5 + 4 + 3 steps on 1, 2, 4 ranks" longer 12

# Batch and shards are the checkpoint's unless the command line sets them.
train 2 --momentum 0.9 --nesterov --ema 0.99 --steps 12 --resume "$(step_file "$folder/longer" 9)" --run "$folder/taken"
expect_line "names the file" '^resumed step-0000000009\.h5 9 12'
expect_line "keeps the shards" '^batch 16 4.shards'
expect_same_state "--resume FILE" "$(step_file "$folder/longer" 12)" "$(step_file "$folder/taken" 12)"

ranks 1 train_cifar --check "${state[@]}" --threads 2 --run "$folder/longer"
expect "no bit depends on threads" bash -c "! grep -q '^note .*threads' '$folder/out'"
ranks 1 train_cifar --check "${state[@]}" --threads 2 --arithmetic fast --run "$folder/longer"
expect_line "oneDNN's may" '^note threads 2 1 weights'

ranks 1 train_cifar --check --global-batch 16 --momentum 0.9 --nesterov --ema 0.99 --run "$folder/longer"
expect "threads are taken over" bash -c "! grep -q '^note .*threads' '$folder/out'"

# At the end there is nothing to do.
train 1 "${state[@]}" --steps 12 --run "$folder/longer"
expect_line "is complete" '^complete step-0000000012\.h5 12 --steps --new'
expect_undisturbed "a run that was complete already" longer 12
for other in '--lr 0.5' '--global-batch 32'; do
  # shellcheck disable=SC2086  # two words
  ranks 2 train_cifar "${small[@]}" "${state[@]}" $other --steps 12 --run "$folder/longer"
  name=${other% *} name=${name#--}
  expect_error "a complete run with another $name" 2 "longer ${name/-/.} ${other#* } --new"
done

# --resume never begins anew, in the log too, but not among the checkpoints of another run.
ranks 2 train_cifar "${small[@]}" "${state[@]}" --steps 5 --resume never --run "$folder/longer"
expect_error "--resume never among checkpoints" 2 'step-0000000012\.h5 --resume.never'
cp -r "$folder/longer" "$folder/anew" && rm "$folder/anew/checkpoints/"*
train 2 "${state[@]}" --steps 5 --resume never --run "$folder/anew"
expect_undisturbed "--resume never" anew 5

# --- another batch from here on counts from here on, and the seed is the run's --------------------------------------------
train 1 --seed 7 --steps 3 --run "$folder/batch"
train 1 --global-batch 4 --steps 5 --resume "$(step_file "$folder/batch" 3)" --run "$folder/smaller"
expect_line "another batch is noted" '^note batch 4 16'
expect "another batch counts from where it begins" "$python" -c '
import sys, h5py
at = h5py.File(sys.argv[1], "r").attrs
sys.exit(0 if (at["step"], at["samples"], at["seed"]) == (5, 3 * 16 + 2 * 4, 7) else str(dict(at)))
' "$(step_file "$folder/smaller" 5)"

# --- a checkpoint every so many seconds ----------------------------------------------------------------------------------
start 1 --global-batch 1 --steps 1000000 --log-every 1000000 --keep 0 --checkpoint-every 1s --run "$folder/seconds"
saves() { [[ $(grep -c ' saved ' "$folder/out") -ge $1 ]]; }
await 60 saves 2
kill -USR1 "$(pid_of_rank 0)"
collect
expect "saves by the clock, not after every step" test "$(grep -oP ' step \K[0-9]+(?=.* saved )' "$folder/out" |
  awk 'NR > 1 && NR < 3 { print ($1 - last > 1) } { last = $1 }')" = 1

# --- a damaged checkpoint is named, and the one before it is used ----------------------------------------------------------
train 1 "${state[@]}" --steps 9 --checkpoint-every 3 --run "$folder/damaged"
printf '\x55\xaa\x55' | dd of="$(step_file "$folder/damaged" 9)" bs=1 seek=3000000 conv=notrunc status=none
train 2 "${state[@]}" --steps 12 --run "$folder/damaged"
expect_line "the damaged file is named" '^warning /checkpoints/step-0000000009\.h5'
expect_line "the one before it is used" '^resumed /checkpoints/step-0000000006\.h5 6 12'
expect_undisturbed "after a damaged checkpoint" damaged 12

# --- SIGUSR1 to one rank: a checkpoint at any time, and a resume on another number of ranks ----------------------
start 2 "${state[@]}" --run "$folder/signalled"
await 30 has_done 3
kill -USR1 "$(pid_of_rank 1)"
collect
expect "exit code 75 after SIGUSR1" test "$code" = 75
stopped=$(sed -n 's/^train_cifar: stopped on request after step \([0-9]*\):.*/\1/p' "$folder/err")
expect "stopped after step 3 or later" test "${stopped:-0}" -ge 3
train 4 "${state[@]}" --steps $((stopped + 3)) --run "$folder/signalled"
expect_line "resumes there" "^resumed step.$stopped"
expect_undisturbed "after SIGUSR1" signalled $((stopped + 3))

# --- kill -9 of a rank: back to the last state ----------------------------------------------------------------------
start 2 "${state[@]}" --checkpoint-every 2 --run "$folder/killed"
await 30 has_done 5
kill -KILL "$(pid_of_rank 1)"
collect
expect "a killed rank is a failure" test "$code" -ne 0
last=$(find "$folder/killed/checkpoints" -name 'step-*.h5' | sort | tail -n 1 | sed 's/.*step-0*\([0-9]*\)\.h5/\1/')
expect "a checkpoint was there" test "${last:-0}" -ge 4
train 1 "${state[@]}" --steps $((last + 3)) --run "$folder/killed"
resumed=$(sed -nE 's/^resumed .*step-0*([0-9]+)\.h5.*/\1/p' "$folder/out")
expect "resumes from the last state or checkpoint" test "${resumed:-0}" -ge "$last"
expect_undisturbed "after kill -9" killed $((last + 3))
expect_files "no temporary is left" "$folder/killed/checkpoints" \
  $(for step in $((last - 2)) "$last" $((last + 3)); do basename "$(step_file . "$step")"; done)
finish
