#!/usr/bin/env bash
# A network in a file of layers: the bits of the built-in one, a resume without the file, and files that differ.
# usage: network_file.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
own=$here/../../apps/networks/resnet18.toml

for model in resnet18 "$own"; do
  train 2 --steps 2 --global-batch 4 --model "$model" --optimizer sgd --momentum 0.9 \
    --lr 0.01 --lr-schedule constant --weight-decay 0 --ema 0 --run "$folder/$(basename "$model")"
done
expect_same_state "the file trains the built-in network's weights" \
  "$(step_file "$folder/resnet18" 2)" "$(step_file "$folder/resnet18.toml" 2)"

net=$folder/net.toml
printf '%s\n' 'sample = [24, 24, 3]' 'layers = [' '{type = "convolution", filters = 8, kernel = 3, relu = true},' \
  '{type = "max_pool", kernel = 4},' '{type = "dense", features = "$classes"}]' >"$net"
again=("${small[@]}" --model "$net" --run "$folder/own")
ranks 2 train_cifar "${again[@]}" --steps 2
expect "it trains" test "$code" = 0
cp "$net" "$folder/copy.toml"
sed -i 's/= 8/= 9/' "$net"
ranks 2 train_cifar "${again[@]}" --steps 3
expect_error "another network is refused" 2 'net.toml line 3 filters 9 8'
rm "$net"
ranks 2 train_cifar "${again[@]}" --steps 3
expect "the run resumes without its file" test "$code" = 0
expect_line "with a note" 'net.toml step-0000000002.h5'
ranks 1 evaluate --threads 1 "$folder/own"
expect "evaluation needs no file" test "$code" = 0
ranks 1 train_cifar "${small[@]}" --model "$net"
expect_error "a file that is missing" 2 'net.toml --model'

# The folder of a run keeps the file, and another file begins another run.
cd "$folder" || exit 1
grep -v no-run small.toml >kept.toml
for filters in 8 8 9; do
  sed "s/= 8/= $filters/" copy.toml >net.toml
  run "$build/train_cifar" --config kept.toml --model net.toml --steps 1
  expect "it trains" test "$code" = 0
done
expect "there are two runs" test "$(ls runs | tr '\n' ' ')" = "train_cifar-net-1 train_cifar-net-2 "
expect "each with its network" cmp net.toml runs/train_cifar-net-2/network.toml

two_commands "$build/train_cifar" --no-run "${small[@]}" --model net.toml // \
  bash -c "cd runs && cp ../copy.toml net.toml && exec '$build/train_cifar' --no-run ${small[*]@Q} --model net.toml"
expect_error "ranks with other files" 2 'networks filters 8 9'
sed -i '3s/kernel/kernle/' net.toml
ranks 2 train_cifar "${small[@]}" --model net.toml
expect_error "an error names its line" 2 'net.toml:3: kernel'
run "$build/bench_step" --model copy.toml --steps 1 --warmup 0 --no-bare --threads 1 --global-batch 8
expect "bench_step reads it too" test "$code" = 0
finish
