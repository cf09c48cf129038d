#!/usr/bin/env bash
# Parameter groups and the linear scaling rule: bitwise identical on any number of ranks. The summary names them, a resume
# compares them, and a group without parameters is an error.
# usage: groups.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
state=(--shards 4 --global-batch 16 --weight-decay 0.001 --reducer tree --momentum 0.9)
groups=(--group 'conv*/weights:lr=0.5' --group '*/biases:lr=2,weight-decay=0.01')

train 1 "${state[@]}" "${groups[@]}" --steps 4 --run "$folder/one"
expect_line "the first group" '^group conv\*/weights: 2 lr 0\.5'
expect_line "the second" '^group \*/biases: 5 2 decay 0\.01'
train 4 "${state[@]}" "${groups[@]}" --steps 2 --run "$folder/two"
train 2 "${state[@]}" "${groups[@]}" --steps 4 --run "$folder/two"
expect_same_state "with groups on 4 and 2 ranks" "$(step_file "$folder/one" 4)" "$(step_file "$folder/two" 4)"
checks=$((checks + 1))
grep -q '^note .*--group' "$folder/out" && complain "the same groups are noted as others"
train 1 "${state[@]}" --steps 4 --run "$folder/plain"
expect_other_state "groups make a difference" "$(step_file "$folder/one" 4)" "$(step_file "$folder/plain" 4)"
train 2 "${state[@]}" --steps 9 --check --group 'conv*/weights:lr=0.5' --resume "$(step_file "$folder/two" 4)"
expect_line "another group is noted" '^note --group conv\*/weights:lr=0\.5 \*/biases'
train 2 "${state[@]}" --steps 9 --check --resume "$(step_file "$folder/two" 4)"
expect_line "none is noted, too" '^note --group not.set conv'

# Parameters with a rate of 0 are frozen, and so are their slots and averages.
for steps in 1 3; do
  train 2 "${state[@]}" --group '*:lr=0' --steps $steps --run "$folder/frozen$steps"
done
expect_line "frozen" '^group \*: 10 frozen'
expect "nothing moves" "$python" - "$(step_file "$folder/frozen1" 1)" "$(step_file "$folder/frozen3" 3)" <<'END'
import sys, h5py
with h5py.File(sys.argv[1]) as one, h5py.File(sys.argv[2]) as three:
    names = []
    one.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
    assert len(names) >= 30, names
    sys.exit([name for name in names if one[name][()].tobytes() != three[name][()].tobytes()] or 0)
END

# Parameters with fewer epochs are frozen after these (3.1 steps), although Muon normalises filters.
for steps in 4 6; do
  train 2 --model resnet_small --optimizer muon --unit-filters --lr-schedule constant --group '*:epochs=0.001' --steps $steps \
    --run "$folder/over$steps"
done
expect "its epochs are over" "$python" - "$(step_file "$folder/over4" 4)" "$(step_file "$folder/over6" 6)" <<'END'
import sys, h5py
with h5py.File(sys.argv[1]) as four, h5py.File(sys.argv[2]) as six:
    names = []
    four["parameters"].visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
    names = [name for name in names if not name.endswith(("/mean", "/variance"))]
    assert len(names) >= 10, names
    sys.exit([name for name in names if (four["parameters"][name][()] != six["parameters"][name][()]).any()] or 0)
END

ranks 2 train_cifar "${small[@]}" --group 'conv9*:lr=0'
expect_error "a group without parameters" 2 '--group conv9\* conv1/biases conv1/weights conv2/biases'
ranks 2 train_cifar "${small[@]}" --group 'conv1*:rate=0'
expect_error "no setting" 2 '--group conv1\* rate=0 lr= weight-decay= epochs='
printf '%s\n' 'group = ["conv1*:lr=0.5", "*biases:weight-decay=0"]' | cat "$folder/small.toml" - >"$folder/groups.toml"
ranks 1 train_cifar --config "$folder/groups.toml" --check
expect_line "groups in a file" '^group \*biases: 4 decay 0'
ranks 1 train_cifar --help-all
expect_line "groups are explained" '--group PATTERN:SETTINGS'

# The linear scaling rule depends on the global batch, not on the number of ranks.
scaled=(--lr 0.1 --lr-scale-batch 4)
train 4 "${scaled[@]}" --steps 2 --run "$folder/scaled" --shards 4 --reducer tree
expect_line "the scaled rate" '^optimizer sgd lr.0\.4 0\.1 4'
expect_line "a warm-up is suggested" '^note warm-up 4 --warmup-epochs'
train 1 --lr 0.4 --steps 2 --run "$folder/said" --shards 4 --reducer tree
expect_same_state "scaled, and set directly" "$(step_file "$folder/scaled" 2)" "$(step_file "$folder/said" 2)"
train 4 --lr 0.1 --lr-scale-batch 8 --steps 9 --check --resume "$(step_file "$folder/scaled" 2)"
expect_line "another scale is noted" '^note --lr-scale-batch 8 4'
ranks 2 train_cifar "${small[@]}" --lr-scale-batch -1
expect_error "no batch" 2 '--lr-scale-batch -1'
finish
