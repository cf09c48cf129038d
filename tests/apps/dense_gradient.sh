#!/usr/bin/env bash
# The gradients of dense layers as products of factors that ranks send each other: the bits of their sums, on any number of
# ranks, under every policy, with several shards on a rank, clipped, in 16 bits, with batch norm over all shards.
# usage: dense_gradient.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py

steps() {  # FOLDER RANKS HOW OPTIONS...: three steps that must end well
  ranks "$2" "${program:-train_cifar}" "${small[@]}" --steps "${to:-3}" --dense-gradient "$3" --checkpoint-dir "$folder/$1" "${@:4}"
  expect "mpirun -np $2 ${*:3}" test "$code" = 0
}
same() {  # WHAT FOLDER FOLDER
  expect_same_state "$1" "$(step_file "$folder/$2" 3)" "$(step_file "$folder/$3" 3)"
  rm -rf "${folder:?}/$3"
}

steps summed 2 summed --shards 4
expect "nothing is said where all are summed" test "$(grep -c '^dense' "$folder/out")" = 0
while read -r count progress reducer; do
  steps factors "$count" factors --shards 4 --progress "$progress" --reducer "$reducer"
  expect_line "factors when asked for" '^dense factors softmax_linear 7 local4 288 local3 3457'
  same "factors on $count ranks, $progress" summed factors
done <<<$'1 wait shared\n2 poll shared\n2 thread tree\n4 wait tree\n4 thread halving_doubling'

# A rank with three shards sums them first: not the order of six in one tree.
steps six 2 summed --shards 6 --global-batch 24
steps factors 2 factors --shards 6 --global-batch 24
same "three shards on a rank" six factors
steps three 3 summed --global-batch 24
steps factors 3 factors --global-batch 24
same "three ranks" three factors
clipped=(--shards 2 --clip-norm 0.1 --weight-decay 0.01 --optimizer adam --lr 0.001)
program=train_mnist steps clipped 2 summed "${clipped[@]}"
program=train_mnist steps factors 2 factors "${clipped[@]}"
same "clipped, another program and optimizer" clipped factors
if has_bf16; then
  steps bf16 2 summed --precision bf16 --shards 4
  steps factors 2 factors --precision bf16 --shards 4
  same "in bf16" bf16 factors
fi
small_checkpoints
steps together 1 summed --shards 4 --sync-bn
steps factors 2 factors --shards 4 --sync-bn
same "batch norm over the global batch" together factors

# A run may go on the other way, and under another reducer the bits are others.
to=2 steps first 2 factors --shards 2
steps first 2 summed --shards 2
expect "of canonical sums no note" test "$(grep -c 'order of sums' "$folder/out")" = 0
steps mpi 4 factors --reducer mpi
expect_line "other bits than sums are noted" '^note factors canonical mpi'
to=4 steps mpi 4 summed --reducer mpi
expect_line "and so are sums after factors" '^note mpi 4.ranks factors canonical'

# Where no other host is, auto takes sums.
ranks 2 train_cifar --threads 1 --check
expect_line "it is set up" '^buckets '
expect "sums within a host" test "$(grep -c '^dense' "$folder/out")" = 0

# Ranks that multiply differently would not stay in lockstep.
factors=("$build/train_cifar" "${small[@]}" --steps 1 --dense-gradient factors)
two_commands "${factors[@]}" // env ONEDNN_MAX_CPU_ISA=SSE41 DNNL_MAX_CPU_ISA=SSE41 "${factors[@]}"
expect_error "no replicas that part" 2 '^train_cifar: --dense-gradient factors ranks'
run "${factors[@]}" --wire bf16
expect_error "no rounding" 2 '^train_cifar: --dense-gradient factors --wire.bf16'
ranks 1 train_cifar --dense-gradient rows
expect_error "a word that is none" 2 '^train_cifar: --dense-gradient: '
finish
