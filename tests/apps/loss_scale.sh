#!/usr/bin/env bash
# Loss scaling: a power of two changes no bit. A step whose gradients overflow is skipped and counted, and halves the scale, on
# any number of ranks. A resumed run keeps scale and counts. CPU cores refuse fp16.
# usage: loss_scale.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
state=(--shards 4 --momentum 0.9)
# A rate with which gradients become long soon.
skipping=("${state[@]}" --lr 2 --loss-scale dynamic:4e37:2)
fields() {  # LOGS: the scale of each step
  "$python" - "$1/metrics.jsonl" <<'PYTHON'
import json
import sys

for line in open(sys.argv[1]):
    row = json.loads(line)
    if row["kind"] == "train":
        print(row["step"], row["loss_scale"], row["loss_scale_good_steps"], row["skipped_steps"], row["loss"])
PYTHON
}

train 1 "${state[@]}" --steps 5 --run "$folder/none"
for how in 1024 dynamic; do
  train 2 "${state[@]}" --steps 5 --loss-scale $how --run "$folder/$how"
  expect_same_state "--loss-scale $how" "$(step_file "$folder/none" 5)" "$(step_file "$folder/$how" 5)"
done
expect_line "the summary names the scale" '^optimizer scale dynamic 65536'
expect "nothing was skipped" bash -c "! grep -q skipped '$folder/out'"

train 1 "${skipping[@]}" --steps 9 --summary-every 1 --run "$folder/whole"
expect_line "the last line counts skipped steps" '^trained [1-9].steps?.skipped'
fields "$folder/whole" >"$folder/whole.scales"
expect "it is halved where a step was skipped, and doubled after two good ones" awk '
  function is(factor) { return $2 / scale > 0.999 * factor && $2 / scale < 1.001 * factor }
  BEGIN { scale = 4e37 }
  { bad = bad || !($4 > before ? is(0.5) && $3 == 0 : is(1) ? $3 == good + 1 : good == 1 && is(2) && $3 == 0) }
  { scale = $2; good = $3; before = $4 }
  END { exit bad || NR != 9 || before < 1 || before > 7 }' "$folder/whole.scales"
for ranks in 2 4; do
  train $ranks "${skipping[@]}" --steps 9 --run "$folder/on$ranks"
  expect_same_state "on $ranks ranks" "$(step_file "$folder/whole" 9)" "$(step_file "$folder/on$ranks" 9)"
  fields "$folder/on$ranks" >"$folder/other.scales"
  expect "the same scales on $ranks ranks" cmp "$folder/other.scales" "$folder/whole.scales"
done
for steps in 2 5 9; do
  train 2 "${skipping[@]}" --steps $steps --run "$folder/parts"
done
expect_same_state "in three parts" "$(step_file "$folder/whole" 9)" "$(step_file "$folder/parts" 9)"
told=$(sed -nE 's/^trained .* ([0-9]+) steps? skipped.*/\1/p' "$folder/out")
expect "its last line counts its own skipped steps" \
  test "${told:-0}" = "$(awk '$1 == 5 { before = $4 } $1 == 9 { print $4 - before }' "$folder/whole.scales")"
fields "$folder/parts" >"$folder/other.scales"
expect "with the same scales" cmp "$folder/other.scales" "$folder/whole.scales"


# A scale that another program has written there.
damaged=$(step_file "$folder/parts" 9)
"$python" -c 'import h5py, sys
with h5py.File(sys.argv[1], "r+") as file: file.attrs["loss_scale"] = "scale high"' "$damaged"
ranks 2 train_cifar "${small[@]}" "${skipping[@]}" --steps 12 --run "$folder/parts"
expect_error "a damaged scale" 1 "$damaged damaged scale.high"
ranks 2 train_cifar "${small[@]}" --precision fp16 --device cpu --check
expect_error "fp16 on CPU cores" 2 "^train_cifar: fp16 --precision $(has_bf16 && echo bf16 || echo fp32)"
ONEDNN_MAX_CPU_ISA=AVX2 ranks 2 train_cifar "${small[@]}" --precision bf16 --device cpu --check
expect_error "bf16 on cores without AVX-512" 2 '^train_cifar: bf16 --precision fp32'
ranks 1 train_cifar "${small[@]}" --loss-scale dynamic:0.5 --check
expect_error "a scale below 1" 2 'dynamic:0.5 8.507059e\+37'
finish
