#!/usr/bin/env bash
# The recipe of airbench94 on a few images: bitwise identical on any number of ranks and after a resume, filters prepared
# from the data, --target, --test-views.
# usage: airbench.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
data=$folder/data
mkdir "$data"
"$python" - "$data" <<'END'
import sys
import h5py
import numpy
random = numpy.random.RandomState(1)
for part, count in (("train", 48), ("test", 24)):
    with h5py.File(f"{sys.argv[1]}/{part}.h5", "w") as file:
        file["images"] = random.randint(0, 256, (count, 32, 32, 3)).astype("uint8")
        file["labels"] = numpy.arange(count) % 3
END
file=airbench94.toml
recipe() {  # RANKS OPTIONS...
  ranks "$1" train_cifar --config "$here/../../apps/recipes/$file" --dataset hdf5 --data "$data" --shards 4 --global-batch 8 --threads 1 \
    --reducer tree "${@:2}"
  checks=$((checks + 1))
  [[ $code == 0 ]] || complain "exit code $code: $*"
}

recipe 1 --steps 2 --target 0 --run "$folder/one"
expect_line "the model" '^model airbench94 1969848'
expect_line "a schedule of its own" '^group whiten/biases 1 441\.667 3 epochs 3\.7736e-05'
expect_line "alternate flips" 'alternate|turns'

# Images grow from 20 to 24 pixels after step 3 and to 32 after step 6.
file=airbench94_fast.toml
growing=(--epochs 1.33 --target 0 --small-images 20:0.4,24:1)
recipe 1 "${growing[@]}" --run "$folder/small"
expect_line "the first images" '^images 20 pixels in height until epoch 0\.4'
expect_line "and the next" '^images 24 pixels in height until epoch 1'
recipe 4 "${growing[@]}" --checkpoint-every 3 --keep 0 --run "$folder/small_four"
expect_same_state "on 4 ranks" "$(step_file "$folder/small" 8)" "$(step_file "$folder/small_four" 8)"
for step in 3 6; do
  recipe 2 "${growing[@]}" --resume "$(step_file "$folder/small_four" $step)" --run "$folder/small_$step"
  expect_same_state "resumed at $step" "$(step_file "$folder/small" 8)" "$(step_file "$folder/small_$step" 8)"
done
expect "filters from the data, which stay frozen" "$python" - "$(step_file "$folder/small_four" 3)" "$(step_file "$folder/small_3" 8)" <<'END'
import sys, h5py, numpy
before, after = (h5py.File(name)["parameters/whiten/weights"][()] for name in sys.argv[1:])
assert (before == after).all() and (before[:12] == -before[12:]).all()
rows = before[:12].reshape(12, 12).astype(float)
products = rows @ rows.T
assert abs(products - numpy.diag(numpy.diag(products))).max() < 1e-4, "at right angles"
END
recipe 1 --epochs 1.33 --target 0 --small-images 20:0.4 --run "$folder/other_sizes"
expect_other_state "the second size makes a difference" "$(step_file "$folder/small" 8)" "$(step_file "$folder/other_sizes" 8)"
recipe 2 --epochs 1.33 --target 0 --small-images 20:0.4,24:9 --check --resume "$(step_file "$folder/small_four" 3)"
expect_line "other sizes are noted" '^note --small-images 20:0\.4,24:9 20:0\.4,24:1'
expect_line "the run ends before all pixels" '^note 1\.33 --small-images'
recipe 1 --epochs 1.33 --target 0 --small-images none --check
expect "no small images" bash -c '! grep -q "^images" "$1"' - "$folder/out"
ranks 1 train_cifar --dataset hdf5 --data "$data" --model airbench94 --small-images 1:1 --check
expect_error "no window fits" 2 '--small-images 1 x 1 airbench94'
ranks 1 train_cifar --dataset hdf5 --data "$data" --model airbench94 --small-images 32:1 --check
expect_error "no smaller image" 2 '--small-images 32 32 x 32'
ranks 2 train_reuters --steps 2 --small-images 8:1 --check
expect_error "texts have no pixels" 2 '--small-images images'
file=airbench94.toml

# There are three classes, so that even an untrained network has some right.
recipe 2 --steps 8 --eval-every 1 --target 5 --run "$folder/target"
expect_line "the target" '^target 5 1 [0-9.]+.s'
expect_files "a checkpoint" "$folder/target/checkpoints" step-0000000001.h5
top1=$(sed -nE 's/.* evaluation: (top-1 [0-9.]+ %).*/\1/p' "$folder/out")
[[ $top1 == top-1* ]] || complain "no evaluation was reported"
recipe 2 --steps 8 --eval-every 1 --target 5 --run "$folder/target"
expect_line "the same command again" '^complete step-0000000001\.h5 --target'
ranks 2 evaluate "$folder/target" --data "$data" --weights raw --no-confusion --test-views
expect_line "evaluated the same" "$top1"
ranks 2 evaluate "$folder/target" --data "$data" --weights raw --test-views --logits "$folder/logits.h5"
expect_error "logits of one view" 2 '--logits --test-views'
recipe 2 --steps 1 --eval-every 1 --target 100
expect_line "out of reach" '^target 100.% not'
recipe 2 --steps 1 --eval-every 0 --check --group '*/weights:lr=2'
expect_line "a frozen group" '^group \*/weights: 8 1 frozen lr 2'
recipe 2 --steps 1 --eval-every 0 --check --group 'whiten/weights:lr=2'
expect_line "a group of frozen parameters only" '^group whiten/weights 1 frozen'
expect_line "never evaluated" '^note --target --eval-every'
expect_line "nor its views" '^note --test-views --eval-every'
ranks 2 train_reuters --steps 2 --test-views --check
expect_error "texts have no views" 2 '--test-views images'
ranks 2 train_reuters --steps 2 --alternate-flips --check
expect_error "texts have no flips" 2 '--alternate-flips topics'
finish
