#!/usr/bin/env bash
# Each mistake of a user gives one line from one rank with reason and fix, a non-zero exit code on all ranks, no hang and no
# half-written file.
# usage: bad_input.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"

# PATTERN OPTIONS...: one rank is enough for a wrong command line; exit code 2.
wrong() {
  local pattern=$1
  shift
  run "$build/train_cifar" "$@"
  expect_error "train_cifar $*" 2 "^train_cifar: $pattern"
}
{ cat "$folder/small.toml"; echo 'steps = 3'; } >"$folder/three.toml"
# CODE PATTERN OPTIONS...: an error that one rank finds during the run.
fails() { fails_on 1 "$@"; }
# The same on two ranks, of which one or both find it.
both_fail() { fails_on 2 "$@"; }
fails_on() {
  local count=$1 exit_code=$2 pattern=$3
  shift 3
  ranks "$count" train_cifar --config "$folder/three.toml" "$@"
  expect_error "mpirun -np $count train_cifar $*" "$exit_code" "^train_cifar: $pattern"
}

# --- options and names: all others are in tests/unit/options.cc ------------------------------------------------------------
wrong 'option --stpes --steps' --stpes 3
wrong 'model "tutrial" "tutorial" airbench94' --model tutrial
wrong '--batch 0 1' --batch 0
printf '%s\n' 'batch = 4' 'lrr = 0.1' >"$folder/run.toml"
wrong 'run.toml:2 option "lrr" lr' --config "$folder/run.toml"
both_fail 2 '2 ranks 1 at.most' --shards 1
both_fail 2 '15 2 shards --global-batch.16' --global-batch 15
both_fail 2 'reducer "rign" "ring"' --reducer rign
ONEDNN_MAX_CPU_ISA=AVX2 ranks 2 train_cifar "${small[@]}" --precision bf16 --device cpu --check
expect_error "bf16 on cores without AVX-512" 2 '^train_cifar: bf16 --precision fp32'

# --- numbers that do not fit each other ---
none=(--reducer auto --eval-every 0 --threads 1 --no-run)
short() {  # CODE PATTERN OPTIONS...: the same without --config
  run "$build/train_cifar" "${none[@]}" "${@:3}"
  expect_error "train_cifar ${*:3}" "$1" "^train_cifar: $2"
}
short 2 '1.18e\+21 samples' --steps 9223372036854775807 --lr-schedule cosine
short 2 '5e\+21 samples' --epochs 1e17
short 2 '2147483648 samples --batch' --batch 9223372036854775807
short 2 '2147483648 samples --global-batch' --global-batch 9223372036854775806
short 1 'memory MiB --batch' --global-batch 200000000
short 2 '--lr-schedule 10@1e-06 epochs' --lr-schedule exponential:10@1e-6
train 1 --steps 2 --warmup-epochs 5
expect_line "a run within its warm-up" '^note warm-up 5'
train 1 --steps 2 --lr 1e-300
expect_line "a learning rate of 0" '^note learning.rate 0'

# --- data files ----------------------------------------------------------------------------------------------------------
data=$folder/data
make_data() {  # whole files in which every label is 0 and every pixel black
  mkdir -p "$data"
  for part in data_batch_{1..5} test_batch; do truncate -s 30730000 "$data/$part.bin"; done
  printf '%s\n' airplane automobile bird cat deer dog frog horse ship truck >"$data/batches.meta.txt"
}
cure='scripts/get_data.sh cifar10 '
both_fail 65 "$folder/nowhere does.not.exist $cure" --data "$folder/nowhere"
make_data
train 1 --data "$data" --steps 1
expect_line "whole files are accepted" '^data CIFAR-10 50000'
rm "$data/data_batch_4.bin"
fails 65 "$data/data_batch_4.bin No.such.file.or.directory $cure" --data "$data"
make_data
truncate -s 30729999 "$data/test_batch.bin"
fails 65 "$data/test_batch.bin 30729999 30730000 truncated $cure" --data "$data"
make_data
printf '\x0a' | dd of="$data/data_batch_2.bin" bs=1 seek=$((3073 * 77)) conv=notrunc status=none
fails 65 "$data/data_batch_2.bin 77 10 0 9 damaged $cure" --data "$data"
rm -r "$data"

# --- checkpoints ---------------------------------------------------------------------------------------------------------
good=$folder/good
train 1 --shards 2 --steps 4 --checkpoint-every 2 --run "$good"
file=$(step_file "$good" 4)
same_name() { rm -rf "$folder/bad"; mkdir -p "$folder/bad/checkpoints"; cp "${1:-$file}" "$(step_file "$folder/bad" 4)"; }

fails 1 "$folder/none.h5 No.such.file" --resume "$folder/none.h5"
fails 2 '--resume atuo auto never' --resume atuo
same_name "$build/CMakeCache.txt"
fails 1 "1 $folder/bad/checkpoints step-0000000004.h5 text.file" --run "$folder/bad"
both_fail 1 'step-0000000004.h5 text.file' --resume "$(step_file "$folder/bad" 4)"
same_name
truncate -s 5000000 "$(step_file "$folder/bad" 4)"
fails 1 'step-0000000004.h5 damaged' --resume "$(step_file "$folder/bad" 4)"
cp "$(step_file "$good" 2)" "$folder/bad/checkpoints"
train 1 --steps 6 --run "$folder/bad"
expect_line "a truncated file is named" '^warning checkpoint /checkpoints/step-0000000004.h5'
expect_line "the one before it is taken" '^resumed /checkpoints/step-0000000002.h5 2 6'
fails 2 'good --seed 1 2' --seed 2 --run "$good"
make_data
fails 2 'good --dataset cifar10 synthetic' --data "$data" --run "$good"
fails 2 'step-0000000004.h5 synthetic cifar10 --dataset' --data "$data" --resume "$file"
rm -r "$data"
fails 1 "step-0000000004.h5 'optimizer/momentum'" --momentum 0.9 --resume "$file"
ranks 3 train_cifar --threads 1 --steps 5 --run "$good"
expect_error "shards of a checkpoint on three ranks" 2 '^train_cifar: step-0000000004.h5 2 shards 3 ranks'
expect_files "the good checkpoints are as they were" "$good/checkpoints" step-0000000002.h5 step-0000000004.h5

# --- places that cannot be written ---------------------------------------------------------------------------------------
touch "$folder/file"
both_fail 74 "$folder/file/below Not.a.directory --run" --run "$folder/file/below"
both_fail 2 '--reducer factors --wire.bf16' --reducer factors
printf 'loss-scale = "dynamic"\n' >"$folder/run.toml"
wrong 'run.toml:1 --loss-scale bf16' --config "$folder/run.toml"
printf 'sampling = "weighted"\n' >"$folder/run.toml"
wrong 'run.toml:1 --sampling weighted balanced --class-weights' --config "$folder/run.toml"
ln -s "$folder/no_target" "$folder/dangling"
fails 2 "--run $folder/dangling link" --run "$folder/dangling"
fails 74 "/proc/none --run" --run /proc/none
mkdir "$folder/odd" && cp "$good/"{config.toml,summary.json} "$folder/odd" && mkdir "$folder/odd/metrics.jsonl"
fails 74 "metrics.jsonl Is.a.directory" --run "$folder/odd"

# A full disk in the middle of a checkpoint: the one before stays, no temporary does.
cp -r "$good" "$folder/full"
run bash -c 'trap "" XFSZ; ulimit -f 6000; exec "$@"' - "$build/train_cifar" "${small[@]}" --shards 2 --steps 6 --run "$folder/full"
expect_error "a limit on the size of files" 74 "^train_cifar: $folder/full/checkpoints/step-0000000006.h5 File.too.large"
expect_files "a limit on the size of files" "$folder/full/checkpoints" step-0000000002.h5 step-0000000004.h5

if unshare --mount true 2>/dev/null; then
  mkdir "$folder/disk"
  # shellcheck disable=SC2016
  run unshare --mount bash -c 'mount -t tmpfs -o size=12m tmpfs "$1" && mkdir "$1/checkpoints" && cp "$2" "$1/checkpoints" && shift 2 || exit 99; "$@"; code=$?; ls -A '"$folder/disk/checkpoints >$folder/listing; exit \$code" - \
    "$folder/disk" "$file" mpirun -np 2 "$build/train_cifar" "${small[@]}" --steps 6 --run "$folder/disk"
  expect_error "a full disk" 74 "^train_cifar: $folder/disk/checkpoints/step-0000000006.h5 No.space.left.on.device"
  expect "a full disk: only the checkpoint before it is there" test "$(cat "$folder/listing")" = step-0000000004.h5
fi

# --- ranks that do not belong together -----------------------------------------------------------------------------------
two() {  # CODE PATTERN RANK_0... // RANK_1...
  two_commands "${@:3}"
  expect_error "ranks that differ: ${*:3}" "$1" "$2"
}
one=("$build/train_cifar" "${small[@]}" --steps 3)
two 2 '^train_cifar: rank 1 \(.*\): options differ: "lr=0.2" here, "lr=0.1" on rank 0. Start all ranks with the same' \
  "${one[@]}" --lr 0.1 // "${one[@]}" --lr 0.2
two 2 '^train_cifar: rank 1 \(.*\): options differ' "${one[@]}" // "${one[@]}" --help
two 2 '^train_cifar: rank 1 \(.*\): options differ' "${one[@]}" --list // "${one[@]}"
two 2 '^train_cifar: rank 1 \(.*\): unknown option --foo' "${one[@]}" // "${one[@]}" --foo
cp "$build/train_cifar" "$folder/other_build"
printf 'x' >>"$folder/other_build"
two 2 '^train_cifar: rank 1 \(.*\): builds differ: ' "${one[@]}" // "$folder/other_build" "${one[@]:1}"

# --- started by a launcher that the MPI does not know --------------------------------------------------------------------
run env -u OMPI_COMM_WORLD_SIZE SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 "${one[@]}"
expect_error "srun without PMIx, task 0" 2 '^train_cifar: srun 2 --mpi=pmix'
run env -u OMPI_COMM_WORLD_SIZE SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 "${one[@]}"
expect "srun without PMIx, task 1: silent, exit code 2" test "$code-$(wc -c <"$folder/raw")" = 2-0
run env SLURM_NTASKS=4 SLURM_JOB_ID=1 "${one[@]}"
expect_error "mpirun forgotten in an allocation" 2 '^train_cifar: SLURM 4 mpirun'
for rank in 0 1; do
  run env RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=2 "${one[@]}"
  if [[ $rank == 0 ]]; then
    expect_error "torchrun, rank 0" 2 '^train_cifar: WORLD_SIZE=2 mpirun'
  else
    expect "torchrun, rank 1: silent, exit code 2" test "$code-$(wc -c <"$folder/raw")" = 2-0
  fi
done
run env RANK=0 WORLD_SIZE=2 mpirun -np 2 "${one[@]}"
expect "mpirun in a container with WORLD_SIZE" test "$code" = 0
run env RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 "${one[@]}"
expect "torchrun of one process" test "$code" = 0

# --- one process in a batch script -----------------------------------------------------------------------------------------
batch=(env SLURM_JOB_ID=77 SLURM_JOBID=77 SLURM_NTASKS=4 SLURM_NNODES=1 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0
  "SLURM_NODELIST=$(hostname)" "SLURM_JOB_NODELIST=$(hostname)" SLURM_TASKS_PER_NODE=4)
for program in $(find "$build" -maxdepth 1 -type f -perm -u+x -printf '%f\n'); do
  run "${batch[@]}" "$build/$program" --no-such-option
  case $program in
    train_* | bench_allreduce) expect_error "$program needs its ranks" 2 "^$program: SLURM 4 mpirun" ;;
    bench_*) expect "$program starts alone" bash -c "! grep -q SLURM '$folder/raw'" ;;
    *) expect_error "$program starts alone" 2 "^$program: unknown --no-such-option" ;;
  esac
done
for program in classify export_model pack_images; do
  run mpirun -np 2 "$build/$program" nowhere "$folder/out.onnx"
  expect_error "$program is one process" 2 "^$program: one.process without.mpirun"
done
run mpirun -np 1 "$build/evaluate" nowhere
expect_error "evaluate as a lone rank" 2 '^evaluate: nowhere'

# --- an MPI that cannot start ----------------------------------------------------------------------------------------------
run env OMPI_MCA_btl=tcp mpirun -np 2 "${one[@]}"  # without "self", which Open MPI 4 needs
# mpirun sometimes loses output of a process that ends at once, and reports that.
[[ $code == 0 ]] || expect "it prints why, although mpirun is to be quiet" grep -qE 'MPI|ORTE_ERROR_LOG' "$folder/raw"

# --- divergence ----------------------------------------------------------------------------------------------------------
both_fail 66 'diverged (NaN|infinity) step.[234] step-000000000[123].h5 --lr' \
  --steps 9 --lr 1e18 --checkpoint-every 1 --run "$folder/diverged"
expect "divergence: that checkpoint is the newest" test "$(sed 's/.*checkpoint is \(.*\.h5\).*/\1/' "$folder/err")" = \
  "$(find "$folder/diverged/checkpoints" -mindepth 1 | sort | tail -n 1)"
fails 66 'diverged step.[567] step-0000000004.h5 --lr' \
  --steps 9 --lr 1e18 --resume "$file"
fails 66 'diverged step.[234] --lr --warmup-epochs' --steps 9 --lr 1e18
fails 66 'diverged step.1 --lr' --steps 1 --lr 1e18
finish
