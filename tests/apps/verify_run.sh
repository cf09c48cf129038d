#!/usr/bin/env bash
# verify_run trains stretches of a run again: an honest run is equal, also on other ranks and if it was continued with other
# options. A run is not, if any field of its files is forged. Nothing in the folder of the run changes, and a run of a
# stranger makes no other file.
# usage: verify_run.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
small_checkpoints
small_data "$folder/data"
export TMPDIR=$folder
export OMPI_MCA_ess_singleton_isolated=1  # Open MPI 4 then starts no daemon for a program without mpirun

small+=(--shards 2 --dataset hdf5 --data "$folder/data/small" --eval-every 2 --seed 5)
honest=$folder/honest
train 2 --steps 4 --checkpoint-every 4 --run "$honest"
train 1 --steps 12 --checkpoint-every 4 --run "$honest"

hash_in() { sed -n "s/.*\"kind\":\"$2\".*\"step\":$3[,}].*\"weights_sha256\":\"\([0-9a-f]\{64\}\)\".*/\1/p" "$1/metrics.jsonl" | tail -1; }
last=$(hash_in "$honest" checkpoint 12)
expect "the log has the hash of a checkpoint" test ${#last} = 64
expect "and of an evaluation" test "$(hash_in "$honest" evaluation 12)" = "$last"
expect "summary.json has that of the last step" grep -q "^  \"weights_sha256\": \"$last\",\$" "$honest/summary.json"
expect_line "the run prints it" "^weights sha256 $last 12"
awk '/^```python$/ { on = 1; next } /^```$/ { on = 0 } on' "$here/../../docs/audit.md" >"$folder/hash.py"
expect "the program of docs/audit.md finds the same hash" test "$("$python" "$folder/hash.py" "$(step_file "$honest" 12)")" = "$last"

# A start that was killed before it wrote its last summary.json, which the next one completes.
sed -i "s/^  \"status\": .*/  \"status\": \"running\",/; s/^  \"weights_sha256\": .*/  \"weights_sha256\": null,/" "$honest/summary.json"
train 1 --steps 12 --checkpoint-every 4 --run "$honest"
expect "it has the hash again" grep -q "^  \"weights_sha256\": \"$last\",\$" "$honest/summary.json"
# The steps of a replay.
LOCKSTEP_REPLAY=$folder/replay:1,3 ranks 1 train_cifar "${small[@]}" --steps 12 --run "$folder/replay"
expect "it stops as on request" test "$code" = 75
expect_files "it saves these steps" "$folder/replay/checkpoints" step-0000000001.h5 step-0000000003.h5
expect "the hash of a step without an evaluation" grep -q "^  \"weights_sha256\": \"$(hash_in "$folder/replay" checkpoint 3)\"," "$folder/replay/summary.json"

sums() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum); }
verify() {  # WHAT CODE RUN OPTION...: verify_run ends with CODE, and the folder of the run is as before
  local what=$1 expected=$2
  sums "$3" >"$folder/before"
  run "$build/verify_run" "${@:3}"
  sums "$3" >"$folder/after"
  expect "$what: exit code $code" test "$code" = "$expected"
  expect "$what: nothing changes" cmp "$folder/before" "$folder/after"
  expect "$what: no scratch folder is left" test -z "$(find "$folder" -maxdepth 1 -name 'lockstep-verify-*')"
}
verify "an honest run" 0 "$honest" --all
for steps in '0 to 4' '4 to 8' '8 to 12'; do expect_line "all stretches" "^steps $steps equal"; done
expect_line "the verdict" '^EQUAL 3 stretches'
middle=(--stretches 1 --seed 3) end=(--stretches 1 --seed 4)  # the seeds choose these
verify "other ranks" 0 "$honest" -np 2 "${middle[@]}"
expect_line "one stretch" '^replay 1 3 2 ranks 4 steps --seed 3'
expect_line "it is the middle one" '^steps 4 8 equal'
expect "it is the only one" test "$(grep -c '^steps ' "$folder/out")" = 1

forged() {  # [RUN]: a fresh copy
  rm -rf "$folder/forged" && cp -r "${1:-$honest}" "$folder/forged"
}
# The hash of an evaluation between two checkpoints: only a replay can find it.
six=$(hash_in "$honest" evaluation 6)
forged && sed -i "s/$six/${six//[0-9]/f}/" "$folder/forged/metrics.jsonl"
verify "a forged hash" 1 "$folder/forged" "${middle[@]}"
expect_line "a forged hash" "^steps 4 8 different step 6 metrics.jsonl:[0-9]+ ${six:0:12}"
expect_line "the verdict" '^DIFFERENT 1 stretch'
# A weight of a checkpoint, with and without its hash in the log.
forged && "$python" - "$(step_file "$folder/forged" 8)" <<'END'
import sys, h5py
with h5py.File(sys.argv[1], "r+") as file:
    file["parameters/softmax_linear/biases"][0] += 0.5
END
verify "a changed weight" 1 "$folder/forged" "${middle[@]}"
expect_line "the files contradict each other" '^step 8 metrics.jsonl:[0-9]+ step-0000000008.h5'
sed -Ei '/"step":8,/s/,"weights_sha256":"[0-9a-f]*"//' "$folder/forged/metrics.jsonl"
verify "a changed weight without its hash" 1 "$folder/forged" "${middle[@]}"
expect_line "the replay finds it" '^steps 4 8 different step 8 step-0000000008.h5'
# A summary of an earlier step, which no replay reaches.
for status in complete running; do
  forged && "$python" - "$folder/forged/summary.json" $status <<'END'
import json, sys
with open(sys.argv[1]) as file:
    summary = json.load(file)
with open(sys.argv[1].replace("summary.json", "metrics.jsonl")) as file:
    best = next(line for line in map(json.loads, file) if line["kind"] == "evaluation")
summary.update(status=sys.argv[2], step=3, epoch=0, weights_sha256=None)
summary["best"] = {"top1": best["top1"], "step": best["step"], "by": "f1", "value": 0.99}
with open(sys.argv[1], "w") as file:
    json.dump(summary, file)
END
  verify "a summary of an earlier step: $status" 1 "$folder/forged" --all
done
# Damage.
forged && sed -i '/"kind":"evaluation".*"step":8,/s/"top1":/"top1":0./' "$folder/forged/metrics.jsonl"
verify "a damaged line" 1 "$folder/forged" "${middle[@]}"
expect_line "a damaged line" '^metrics.jsonl:[0-9]+ JSON'
forged && sed -n '/"kind":"evaluation"/s/"step":12,/"step":11,/p' "$honest/metrics.jsonl" | tr -d '\n' >>"$folder/forged/metrics.jsonl"
verify "an invented last line without its end" 1 "$folder/forged" "${end[@]}"
expect_line "an invented last line" '^metrics.jsonl:[0-9]+ 11 12'
forged && "$python" -c 'import h5py, sys; del h5py.File(sys.argv[1], "r+")["parameters"]' "$(step_file "$folder/forged" 8)"
verify "a checkpoint without weights" 1 "$folder/forged" "${end[@]}"
expect_line "a checkpoint without weights" 'step-0000000008.h5 damaged parameters'
forged && truncate -s 3000 "$(step_file "$folder/forged" 8)"
verify "a damaged checkpoint" 1 "$folder/forged" "${end[@]}"
expect_line "a damaged checkpoint" 'step-0000000008.h5 damaged'
forged && echo 'garbage [[[' >>"$folder/forged/config.toml"
verify "a line that is no option" 1 "$folder/forged" "${end[@]}"
expect_line "it is named" '^config.toml garbage'
# A checkpoint of an earlier version is neither equal nor different.
forged && "$python" -c 'import h5py, sys; h5py.File(sys.argv[1], "r+").attrs["best"] = "top-1 0.2"' "$(step_file "$folder/forged" 12)"
verify "a run of an earlier version" 65 "$folder/forged" "${end[@]}"
expect_error "it says so" 65 '^verify_run: step-0000000012.h5 earlier.version'
ranks 1 train_cifar "${small[@]}" --steps 13 --run "$folder/forged"
expect_error "nor can it go on" 1 '^train_cifar: step-0000000012.h5 earlier.version'

# Every field of every file of a run of four steps, which has epochs, a validation set, averages and a test.
tiny=$folder/tiny
train 1 --global-batch 80 --epochs 2 --eval-every epoch --validation 0.2 --ema 0.9 --keep 1 --run "$tiny"
verify "a run with a validation set" 0 "$tiny" --all
expect_line "what no replay repeats" '^not compared hosts report.html speeds times'
expect "samples.bin is compared" eval '! grep -q "^not compared.*samples.bin" "$folder/out"'
"$python" "$here/forge.py" "$tiny" "$folder/forgeries" >"$folder/names"
expect "there are many forgeries" test "$(wc -l <"$folder/names")" -gt 120
forge_part() {  # PART: each second one
  local name number=-1
  while read -r name; do
    ((++number % 2 == $1)) || continue
    run "$build/verify_run" "${folder%/*}/forgeries/$number" --all
    expect "the forgery $name is found" test "$code" = 1
  done <"${folder%/*}/names"
}
aside forge_part 0
aside forge_part 1
join_asides

# The file of a network, and files that Lockstep does not write.
cp "$here/../../apps/networks/resnet_small.toml" "$folder/config.toml"  # as the options of a run are called
train 1 --steps 2 --model "$folder/config.toml" --run "$folder/network"
touch "$folder/network/claims.txt" "$folder/network/checkpoints/claims.txt"
verify "a network in a file" 0 "$folder/network" --all
expect_line "other files are named" '^not compared checkpoints/claims.txt claims.txt report.html'
expect "network.toml is compared" eval '! grep -q "^not compared.*network.toml" "$folder/out"'
echo >>"$folder/network/network.toml"
verify "another network" 1 "$folder/network" --all
expect_line "another network" 'network.toml summary.json'

# Options of a stranger reach no other file.
forged "$tiny" && "$python" "$here/forge.py" "$folder/forged" trace "\"$folder/trace.json\""
verify "an option that writes a file" 0 "$folder/forged" --all
expect "it wrote none" test ! -e "$folder/trace.json"
for option in init resume class-weights model config; do
  forged "$tiny" && "$python" "$here/forge.py" "$folder/forged" "$option" "\"$folder/other.toml\""
  verify "an option that names a file" 65 "$folder/forged" --all
  expect_line "an option that names a file" "not replayed --$option other.toml --trusted"
done

# Honest runs that were continued: with other lengths, a schedule, ranks, an order of sums, and data that have moved.
cp -r "$folder/data" "$folder/moved"
for options in '--lr-schedule cosine --keep 0' '--keep 1' '--reducer ring --keep 0 --validation 0.2'; do
  rm -rf "$folder/continued"
  read -ra words <<<"$options"
  train 2 --global-batch 80 "${words[@]}" --epochs 2 --run "$folder/continued"
  train 1 --global-batch 80 "${words[@]}" --epochs 4 --data "$folder/moved/small" --run "$folder/continued"
  verify "continued with $options" 0 "$folder/continued" --all
done
# The best state is the end of an earlier start, which also evaluated the test set. best.h5 says so too.
best=(--global-batch 40 --shards 4 --seed 4 --eval-every 4 --validation 0.2)
for steps in 4 8; do train 1 "${best[@]}" --steps $steps --run "$folder/best"; done
expect "the first end has the best state" grep -q '"best": {[^}]*"step": 4' <(tr -d '\n' <"$folder/best/summary.json")
verify "the best state is an earlier end" 0 "$folder/best" --all
# It goes on and stops before its next evaluation: evaluation.json still has the former test.
start 1 "${best[@]}" --eval-every 0 --steps 100000 --run "$folder/best"
await 30 has_done 12
kill -USR1 "$(pid_of_rank 0)" && collect
verify "evaluation.json has a former test" 0 "$folder/best" --all
train 1 "${best[@]}" --steps 10 --run "$folder/best"
expect "fewer steps do not complete it" eval '! grep -q "\"status\": \"complete\"" "$folder/best/summary.json"'
# Weights that have changed since are no fault of the run.
train 1 --steps 2 --init "$folder/best" --run "$folder/tuned"
verify "a run with --init" 0 "$folder/tuned" --all --trusted
"$python" -c 'import h5py, sys; h5py.File(sys.argv[1], "r+")["parameters/softmax_linear/biases"][0] += 0.5' "$folder/best/checkpoints/best.h5"
verify "other weights of --init" 65 "$folder/tuned" --all --trusted
expect_line "it says so" '^steps 0 2 not.replayed --init'
# A run that was killed: its log goes beyond its last checkpoint.
start 1 --steps 100000 --checkpoint-every 5 --eval-every 3 --run "$folder/killed"
await 30 has_done 12
kill -KILL "$(pid_of_rank 0)" && collect
verify "a run that was killed" 0 "$folder/killed" --stretches 2
# Killed between the line of its last evaluation and evaluation.json, which is that of the one before.
train 1 --steps 4 --run "$folder/shorter"
train 1 --steps 8 --checkpoint-every 100 --run "$folder/older"
cp "$folder/shorter/evaluation.json" "$folder/older/"
verify "an evaluation.json of the evaluation before" 0 "$folder/older" --all
sed -Ei 's/("samples": *)[0-9]+/\199/' "$folder/older/evaluation.json"
verify "and a forged one" 1 "$folder/older" --all

# verify_run is killed: its training ends, and the next one removes the copy.
audits() {  # WHAT: verify_run trains in the background; `auditor` and `trained` are its process and its training
  "$build/verify_run" "$folder/long" >"$folder/out" 2>"$folder/raw" &
  auditor=$!
  await 20 eval 'trained=$(children $auditor) && [[ -n $trained ]] && takes_signals "$trained"'
}
cp -r "$folder/killed" "$folder/long"
find "$folder/long/checkpoints" -type f -delete
echo '{"kind":"checkpoint","time":1,"step":99999,"weights_sha256":"0"}' >>"$folder/long/metrics.jsonl"
audits
kill -KILL "$auditor"
await 20 eval '! kill -0 "$trained"'
expect "a copy is left" test -n "$(find "$folder" -maxdepth 1 -name 'lockstep-verify-*')"
verify "the next start" 0 "$tiny" --stretches 1
# A second signal ends it although its training is stopped.
audits
kill -STOP "$trained"
kill -TERM "$auditor"
sleep 0.5
kill -TERM "$auditor"
await 5 eval '! kill -0 "$auditor"'
expect "the training too" eval '! kill -0 "$trained" 2>/dev/null'

# Data that have moved.
mv "$folder/data" "$folder/gone"
verify "no data" 65 "$honest" "${middle[@]}"
expect_line "no data" 'not replayed data/small --data'
expect_line "no data" '^INCOMPLETE 1 stretch'
run "$build/evaluate" "$folder/continued" --no-confusion
expect "evaluate knows where they are now" test "$code" = 0
# Without the last checkpoint the log still has hashes.
forged && rm "$(step_file "$folder/forged" 12)"
sed -i 's/^  "arithmetic": .*/  "arithmetic": "another processor",/' "$folder/forged/summary.json"
"$python" "$here/facts.py" "$(step_file "$folder/forged" 8)" arithmetic '"another processor"'
verify "data that moved" 0 "$folder/forged" "${end[@]}" --data "$folder/moved/small"
expect_line "another arithmetic" '^note arithmetic here another processor'
expect_line "steps after the last checkpoint" '^steps 8 12 equal'

# No bit of portable arithmetic depends on --isa, so processors without the run's set replay it too.
for name in avx2:avx2 avx512:avx512f amx:amx_bf16; do
  grep -qw "${name#*:}" /proc/cpuinfo && continue
  forged && "$python" "$here/forge.py" "$folder/forged" isa "\"${name%:*}\""
  verify "a set that this processor lacks" 0 "$folder/forged" "${middle[@]}" --data "$folder/moved/small"
done

run "$build/verify_run" "$honest" --all --stretches 2
expect_error "two choices" 2 '^verify_run: --all --stretches'
run "$build/verify_run" "$honest" --program "$folder/none"
expect_error "no program" 2 '^verify_run: --program none'
run "$build/verify_run" "$honest" --scratch "$honest/summary.json"
expect_error "scratch is no folder" 74 '^verify_run: cannot create summary.json --scratch'
rm "$folder"/forged/{metrics.jsonl,summary.json,checkpoints/*}
run "$build/verify_run" "$folder/forged"
expect_error "nothing to compare" 65 '^verify_run: forged summary.json'
finish
