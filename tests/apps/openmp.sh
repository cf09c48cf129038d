#!/usr/bin/env bash
# OpenMP's environment and absurd numbers of threads: bitwise identical results, or one line with the cure, never a hang.
# usage: openmp.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
run_options=(--threads 2 --global-batch 8 --shards 2)

# --- settings without effect ------------------------------------------------------------------------------------------
train 2 "${run_options[@]}" --steps 2 --run "$folder/plain"
for setting in OMP_DYNAMIC=true OMP_MAX_ACTIVE_LEVELS=0 OMP_NUM_THREADS=1 OMP_PROC_BIND=true OMP_THREAD_LIMIT=2; do
  export "${setting?}"
  train 2 "${run_options[@]}" --steps 2 --run "$folder/$setting"
  unset "${setting%=*}"
  expect_same_state "$setting" "$(step_file "$folder/plain" 2)" "$(step_file "$folder/$setting" 2)"
done

# --- binding removes no core --------------------------------------------------------------------------------------------
# The cores of a rank: "Cpus_allowed_list" of its computing thread, and its default number of threads.
cores_of() {
  start 1 --global-batch 8
  await 60 has_done 2
  cores=$(grep Cpus_allowed_list "/proc/$(pid_of_rank 0)/status") placed=$(grep -oE 'cpu:.*threads?' "$folder/out" | head -1)
  kill -TERM "$(pid_of_rank 0)"
  collect
}
cores_of
free="$cores, $placed"
OMP_PROC_BIND=true cores_of
expect "OMP_PROC_BIND leaves the cores ($free, and $cores, $placed)" test "$cores, $placed" = "$free"

# --- too few, too many ---------------------------------------------------------------------------------------------------
export OMP_THREAD_LIMIT=1
ranks 2 train_cifar "${small[@]}" "${run_options[@]}"
expect_error "OMP_THREAD_LIMIT below --threads" 2 '^train_cifar: OpenMP 1 2 OMP_THREAD_LIMIT --threads'
ranks 2 evaluate --threads 2 "$(step_file "$folder/plain" 2)"
expect_error "OMP_THREAD_LIMIT below --threads of evaluate" 2 '^evaluate: OpenMP 1 2 threads'
unset OMP_THREAD_LIMIT
for threads in 1025 100000 2147483647; do
  ranks 2 train_cifar "${small[@]}" --threads $threads
  expect_error "--threads $threads" 2 "^train_cifar: $threads [0-9]+ processors --threads"
done

# --- the communication thread has no team of its own ----------------------------------------------------------------------
# POLICY: how many threads a rank has, without those that a busy machine makes src/device/cpu/spin_control add.
count_threads() {
  start 2 "${run_options[@]}" --reducer tree --progress "$1"
  await 60 has_done 2
  threads=$(cat "/proc/$(pid_of_rank 0)/task"/*/comm | grep -vcx 'spin control')
  kill -TERM "$(pid_of_rank 0)"
  collect
}
count_threads poll
polling=$threads
count_threads thread
expect "one thread more to communicate" test "$threads" = $((polling + 1))
train 2 "${run_options[@]}" --steps 2 --reducer tree --progress thread --run "$folder/thread"
expect_same_state "updates on one thread" "$(step_file "$folder/plain" 2)" "$(step_file "$folder/thread" 2)"
finish
