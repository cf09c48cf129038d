#!/usr/bin/env bash
# verify_run trains stretches of a run again: an honest run is equal, also on other ranks and after a resume. Forged hashes,
# weights and results are found, and nothing in the folder of the run changes.
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
LOCKSTEP_REPLAY=1,3 ranks 1 train_cifar "${small[@]}" --steps 12 --run "$folder/replay"
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

forged() {  # a fresh copy
  rm -rf "$folder/forged" && cp -r "$honest" "$folder/forged"
}
# The hash of an evaluation between two checkpoints: only a replay can find it.
six=$(hash_in "$honest" evaluation 6)
forged && sed -i "s/$six/${six//[0-9]/f}/" "$folder/forged/metrics.jsonl"
verify "a forged hash" 1 "$folder/forged" "${middle[@]}"
expect_line "a forged hash" "^steps 4 8 different step 6 metrics.jsonl:[0-9]+ ${six:0:12}"
expect_line "the end of the stretch" 'weights step 8 are equal'
expect_line "the verdict" '^DIFFERENT 1 stretch'
# A weight of a checkpoint, with and without its hash in the log.
forged && "$python" - "$(step_file "$folder/forged" 8)" <<'END'
import sys, h5py
with h5py.File(sys.argv[1], "r+") as file:
    file["parameters/softmax_linear/biases"][0] += 0.5
END
verify "a changed weight" 1 "$folder/forged" "${middle[@]}"
expect_line "the files contradict each other" '^step 8 metrics.jsonl:[0-9]+ step-0000000008.h5'
sed -i '/"step":8,"weights_sha256"/d' "$folder/forged/metrics.jsonl"
verify "a changed weight without its hash" 1 "$folder/forged" "${middle[@]}"
expect_line "the replay finds it" '^steps 4 8 different step 8 step-0000000008.h5 differ at most 0\.5 softmax_linear/biases'
# Results.
forged && sed -i '/"kind":"evaluation".*"step":8,/s/"top1":[0-9.]*/"top1":0.99/' "$folder/forged/metrics.jsonl"
verify "a changed accuracy" 1 "$folder/forged" "${middle[@]}"
expect_line "a changed accuracy" '^steps 4 8 different step 8 evaluation top1 0\.99'
forged && sed -i '/"kind":"train".*"step":7,/s/"loss":[0-9.]*/"loss":1.5/' "$folder/forged/metrics.jsonl"
verify "a changed loss" 1 "$folder/forged" "${middle[@]}"
expect_line "a changed loss" '^steps 4 8 different step 7 train loss 1\.5'
forged && sed -i '/"kind":"evaluation".*"step":8,/s/"top1":/"top1":0./' "$folder/forged/metrics.jsonl"
verify "a damaged line" 1 "$folder/forged" "${middle[@]}"
expect_line "a damaged line" '^metrics.jsonl:[0-9]+ JSON'
forged && truncate -s 3000 "$(step_file "$folder/forged" 8)"
verify "a damaged checkpoint" 1 "$folder/forged" "${end[@]}"
expect_line "a damaged checkpoint" 'step-0000000008.h5 damaged'
expect_line "the stretch goes on to the next one" '^steps 4 12 equal'

# Data that have moved.
mv "$folder/data" "$folder/moved"
verify "no data" 65 "$honest" "${middle[@]}"
expect_line "no data" 'not replayed data/small --data'
expect_line "no data" '^INCOMPLETE 1 stretch'
# Without the last checkpoint the log still has hashes. Its arithmetic is in summary.json only.
forged && rm "$(step_file "$folder/forged" 12)"
sed -i 's/^  "arithmetic": .*/  "arithmetic": "another processor",/' "$folder/forged/summary.json"
verify "data that moved" 0 "$folder/forged" "${end[@]}" --data "$folder/moved/small"
expect_line "another arithmetic" '^note arithmetic here another processor'
expect_line "steps after the last checkpoint" '^steps 8 12 equal'

# No bit of portable arithmetic depends on --isa, so processors without the run's set replay it too.
for name in avx2:avx2 avx512:avx512f amx:amx_bf16; do
  grep -qw "${name#*:}" /proc/cpuinfo && continue
  forged && sed -i "s/^.*isa=.*/isa=\"${name%:*}\"/" "$folder/forged/config.toml"
  expect "the run had --isa" grep -q "^isa=" "$folder/forged/config.toml"
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
