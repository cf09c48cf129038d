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
test_rates 2 --run two --steps 7
expect "the ranks agree" cmp one.json runs/find-lr/two.json
expect_files "no run is kept" runs find-lr find-lr/two.json
read -r points lr < <(python3 -c 'import json; t = json.load(open("one.json")); print(len(t["points"]), t["suggested"])')
expect "at most 60 points: $points" test "$points" -gt 20 -a "$points" -le 60
expect "a rate between both ends: $lr" python3 -c "assert 1e-6 < $lr < 1"
expect_line "the output has it" "^suggested --lr $lr"
test_rates 1 --no-run
expect "nothing is written" test ! -e runs/find-lr/train_cifar-resnet_small.json
run "$build/train_cifar" --find-lr 60 --resume "$folder/x.h5"
expect_error "a checkpoint is no start" 2 '--find-lr x.h5 --init'

# --- a job that keeps nothing does not end with 75, so it is not requeued ------------------------------------------------
stopped() {  # WHAT LINE OPTION...: stopped after LINE of stdout
  launch 1 train_cifar --model resnet_small --global-batch 32 --threads 1 --no-run --eval-every 0 "${@:3}"
  await 40 grep -q "$2" "$folder/out"
  kill -USR1 "$(pid_of_rank 0)"
  collect
  expect_error "$1" 1 '^train_cifar: step.[0-9]+'
}
stopped "a learning-rate test" '^length' --find-lr 100000
stopped "a run without a folder" '^step 1/' --steps 100000 --log-every 1
finish
