#!/usr/bin/env bash
# The first ten losses of a run, with the penalty, recorded once, so that no change of the computation goes unnoticed. Instruction sets and
# library versions may differ in the last bits, hence the tolerance.
# usage: golden.sh BUILD_FOLDER [record]     record prints the losses of this build, for the list below
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
python=python3
"$python" -c '' 2>/dev/null || skip "python3 is not installed"
golden=(
  5.3771895 5.3798325 5.3582729 5.4207382 5.3513032 5.3898714 5.4782946 5.3433394 5.3845872 5.3309326
)

losses() {  # RANKS OPTIONS...: one number a line
  train "$1" --steps 10 --global-batch 32 --shards 2 --lr 0.02 --momentum 0.9 --weight-decay 0.001 --seed 3 \
    --run "$folder/$1$2" "${@:3}"
  "$python" -c 'import json, sys
for row in map(json.loads, open(sys.argv[1])):
    if row["kind"] == "train":
        print("%.7f" % (row["loss"] + row["penalty"]))' "$folder/$1$2/metrics.jsonl"
}
expect_close() {  # WHAT TOLERANCE FILE: relative, ten of them
  expect "$1" "$python" -c 'import sys
expected = [float(word) for word in sys.argv[3:]]
found = [float(line) for line in open(sys.argv[2])]
far = ["step %d: %.7f, not %.7f" % (step, f, e) for step, (f, e) in enumerate(zip(found, expected), 1)
       if abs(f - e) > float(sys.argv[1]) * e]
if far or len(found) != 10:
    sys.exit("%d losses; %s" % (len(found), "; ".join(far)))' "$2" "$3" "${golden[@]}"
}

losses 1 fp32 >"$folder/one"
if [[ ${2:-} == record ]]; then
  cat "$folder/one"
  finish
  exit
fi
losses 2 fp32 >"$folder/two"
expect_close "one rank" 1e-4 "$folder/one"
expect_close "two ranks" 1e-4 "$folder/two"
if has_bf16; then
  losses 2 bf16 --precision bf16 >"$folder/bf16"
  expect_close "bf16" 2e-2 "$folder/bf16"
  expect "bf16 is not fp32" bash -c "! cmp -s '$folder/bf16' '$folder/two'"
fi
finish
