#!/usr/bin/env bash
# --find-lr: the same points on any number of ranks, a suggestion that trains, and no run.
# usage: find_lr.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$folder" || exit 1
test_rates() {  # RANKS OPTION...
  run mpirun -np "$1" "$build/train_cifar" --model resnet_small --global-batch 32 --shards 2 --threads 1 --find-lr 60 "${@:2}"
  expect "exit code $code: ${*:2}" test "$code" = 0
}
test_rates 1
mv runs/find-lr/train_cifar-resnet_small.json one.json
test_rates 2 --run two --steps 7 --checkpoint-dir nothing
expect "the ranks agree" cmp one.json runs/find-lr/two.json
expect_files "no run is kept" runs find-lr find-lr/two.json
expect "nor a checkpoint" test ! -e nothing
read -r points lr < <(python3 -c 'import json; t = json.load(open("one.json")); print(len(t["points"]), t["suggested"])')
expect "at most 60 points: $points" test "$points" -gt 20 -a "$points" -le 60
expect "a rate between both ends: $lr" python3 -c "assert 1e-6 < $lr < 1"
expect_line "the output has it" "^suggested --lr $lr"
test_rates 2 --log-dir logs
expect "in --log-dir" cmp one.json logs/find-lr.json
test_rates 1 --no-run
expect "nothing is written" test ! -e runs/find-lr/train_cifar-resnet_small.json
run "$build/train_cifar" --find-lr 60 --resume "$folder/x.h5"
expect_error "a checkpoint is no start" 2 '--find-lr x.h5 --init'
finish
