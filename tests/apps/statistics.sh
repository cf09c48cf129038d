#!/usr/bin/env bash
# A model with batch norm and dropout: four shards are bitwise identical on one, two and four ranks and after a resume, with
# running statistics and masks. evaluate uses the checkpoint's statistics.
# usage: statistics.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
small_data "$folder/data"
state=(--dataset hdf5 --data "$folder/data/small" --model resnet_small --shards 4 --global-batch 32 --ema 0.5 --lr 0.02 --momentum 0.9)

train 1 "${state[@]}" --steps 4 --eval-every 4 --run "$folder/one"
train 4 "${state[@]}" --steps 2 --reducer tree --progress poll --run "$folder/two"
train 2 "${state[@]}" --steps 4 --run "$folder/two"
expect_line "resumes" '^resumed /checkpoints/step-0000000002\.h5 2 4'
expect_same_state "4 steps on one rank, 2 on four and 2 on two" "$(step_file "$folder/one" 4)" "$(step_file "$folder/two" 4)"

expect "statistics have moved, and optimizers hold none" "$python" - "$(step_file "$folder/one" 4)" <<'PYTHON'
import sys

import h5py

with h5py.File(sys.argv[1]) as file:
    for section in ("parameters", "ema"):
        norm = file[section + "/block1/norm1"]
        assert sorted(norm) == ["beta", "gamma", "mean", "variance"], sorted(norm)
        assert abs(norm["mean"][...]).min() > 0 and abs(norm["variance"][...] - 1).max() > 0.01, section
    assert sorted(file["optimizer/momentum/block1/norm1"]) == ["beta", "gamma"]
PYTHON

ranks 2 evaluate --data "$folder/data/small" "$folder/one"
trained=$(sed -n 's/.*"kind":"evaluation".*"top1":\([0-9.]*\),.*/\1/p' "$folder/one/metrics.jsonl")
expect "evaluate finds the accuracy of the run" "$python" - "$trained" "$folder/out" <<'PYTHON'
import re
import sys

found = re.search(r"top-1 ([0-9.]+) %", open(sys.argv[2]).read())
assert found and abs(float(found.group(1)) - 100 * float(sys.argv[1])) < 0.006, (found, sys.argv[1])
PYTHON
finish
