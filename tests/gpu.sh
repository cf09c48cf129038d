#!/usr/bin/env bash
# Builds, tests and measures everything that needs a GPU. The machine must have a GPU, the CUDA toolkit and a compiler. The
# most important stages come first. Each result is written to the table at once, so a time limit loses only the rest.
#
# For the first run on a new machine: stop at the first row that differs from the comment at its stage.
set -uo pipefail

usage() {
  cat <<'HELP'
usage: tests/gpu.sh [DEPENDENCIES [RESULTS]]

Builds with the CUDA back end for the GPU of this machine, runs all tests on it, and trains for speed.
  DEPENDENCIES  a pack of scripts/pack_dependencies.sh (default: .deps if it exists, else the libraries of the system)
  RESULTS       folder for table.txt, machine.txt and results.tar.gz with all logs (default: $OUT, else results in the build
                folder)
cmake and ninja must be on PATH (pip installs both). Without a pack, run scripts/get_cudnn_frontend.sh first, or set
CUDNN_FRONTEND_ROOT to the headers of cuDNN's front end. The exit code is 0 if nothing failed. If train_cifar cannot set up
the GPU, nothing else runs.

Environment:
  LOCKSTEP_BUILD        build folder (default: build-gpu); a configured folder keeps its settings
  LOCKSTEP_REQUIRE_GPU  0: without a GPU, skip its tests and train on the CPU, to try this script; 1: fail (default: 1)
  LOCKSTEP_SECONDS      time limit in seconds (default: 570)
HELP
}
if [[ ${1:-} == -h || ${1:-} == --help ]]; then usage; exit 0; fi

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$(realpath -m "${LOCKSTEP_BUILD:-$root/build-gpu}")
dependencies=${1:-$root/.deps}
results=$(realpath -m "${2:-${OUT:-$build/results}}")
export LOCKSTEP_REQUIRE_GPU=${LOCKSTEP_REQUIRE_GPU:-1}
last=${LOCKSTEP_SECONDS:-570}
failed=0

die() {
  echo "gpu.sh: $1" >&2
  exit 2
}
if [[ -r $dependencies/env.sh ]]; then
  set +u
  # shellcheck disable=SC1091
  . "$dependencies/env.sh" || die "the pack in $dependencies cannot be used (see above)."
  set -u
elif [[ -n ${1:-} ]]; then
  die "$dependencies contains no env.sh. Name the folder of the dependencies."
fi
logs=$build/gpu-logs
mkdir -p "$results" "$build" "$logs" || die "cannot create $results and $logs. Name other folders."
rm -f "$logs"/*.log
: >"$results/table.txt"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_btl=^tcp,ofi OMPI_MCA_pml=ob1 OMP_NUM_THREADS=1

row() {  # STAGE RESULT SECONDS TEXT
  printf '%-34s %-8s %5s s  %s\n' "$@" | tee -a "$results/table.txt"
}
# Packs all logs into one file. This happens after each failure and at the end, because the machine may be available for
# only minutes.
pack() {
  local names
  mapfile -t names < <(ls "$logs")
  tar -czf "$results/results.tar.gz" -C "$results" table.txt machine.txt -C "$logs" "${names[@]}"
}
# stage NAME LIMIT COMMAND...: writes one row. Its output is in NAME.log, with '_' for blanks. The text of the row is the last
# line of the log with a result. After a failure it prints the end of the log.
stage() {
  local name=$1 limit=$2 log=$logs/${1// /_}.log code=0 began=$SECONDS result words
  shift 2
  if ((SECONDS >= last)); then row "$name" cut 0 "no time left"; return 1; fi
  if ((limit > last - SECONDS)); then limit=$((last - SECONDS)); fi
  timeout --kill-after=5 "$limit" "$@" >"$log" 2>&1 </dev/null || code=$?
  words=$(grep -aE '^\[ +(PASSED|FAILED) +\] [0-9]+|^(skipped|LOCKSTEP_REQUIRE_GPU|train_cifar: )|samples/s|rror' "$log" | tail -n 1 | cut -c1-150)
  case $code in
    0) result=passed ;;
    77) result=skipped ;;
    124 | 137) result="cut" ;;
    *) result=FAILED ;;
  esac
  row "$name" $result $((SECONDS - began)) "$words"
  if [[ $result != passed && $result != skipped ]]; then
    failed=1
    tail -n 20 "$log" | sed 's/^/    /'
    pack
  fi
  return $code
}
end() {
  row "all" "$([[ $failed == 0 ]] && echo passed || echo FAILED)" $SECONDS "$results/table.txt"
  pack
  exit $failed
}
compile() { cmake --build "$build" --target "$@"; }
set_up() {  # train_cifar sets up the GPU; returns 77 if there is none and none is required
  local code=0 words
  words=$("$build/train_cifar" --device cuda --check 2>&1) || code=$?
  echo "$words"
  [[ $code == 0 || $LOCKSTEP_REQUIRE_GPU != 0 || $words != *"no CUDA device"* ]] || code=77
  return $code
}
programs() { for file in "$@"; do basename "$file" .cc; done; }  # names of test programs
export -f compile set_up
export build

# Expected: driver 580 or newer for CUDA 13, compute mode Default, MIG Disabled, 1 GB or more of shared memory, NUMA nodes "0" or
# "0-1", one libcuda. A second cuBLASLt, cuDNN or NCCL may be the one that is loaded. Kernel 4.4.0 is gVisor: no sanitizer.
{
  nvidia-smi
  nvidia-smi --query-gpu=name,driver_version,compute_mode,mig.mode.current --format=csv,noheader
  nvcc --version
  c++ --version
  df -h /dev/shm
  cat /sys/devices/system/node/online
  uname -r
  ldconfig -p | grep -E 'libcuda\.so|nvidia-ml|cublasLt|cudnn\.so|nccl'
  echo "LD_LIBRARY_PATH: ${LD_LIBRARY_PATH:-}"
} >"$results/machine.txt" 2>&1
row "machine" "" "" "$(nvidia-smi --query-gpu=name,driver_version,compute_cap,compute_mode,mig.mode.current --format=csv,noheader 2>/dev/null | paste -sd';' || true)"

if [[ ! -f $build/CMakeCache.txt ]]; then
  architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d .)
  if [[ $architecture == 90 ]]; then architecture=90a; fi
  stage configure 120 cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DLOCKSTEP_CUDA=ON \
    ${architecture:+"-DCMAKE_CUDA_ARCHITECTURES=$architecture-real"} || end
fi

# If the GPU cannot be set up, every other stage would fail too, so nothing else is built. Expected: the build takes at most
# 150 s on 16 cores, the check at most 15 s, and its line "devices" names a GPU.
device=cuda steps=300 many=20000
stage "build train_cifar" 400 bash -c "compile train_cifar" || end
stage "check" 120 bash -c set_up || { [[ $? == 77 ]] || end; device=cpu steps=3 many=3; }

# A CUDA error 46 (GPU busy), 802 (fabric manager) or 803 (driver libraries) in gpu.device is the machine's. A failure in
# gpu.plans names the engine.
tests=$build/tests
for name in device plans; do
  stage "build gpu_$name" 300 bash -c "compile gpu_$name" && stage "gpu.$name" 120 "$tests/gpu_$name"
done

# train OPTION...: a few steps of the tutorial network.
train() {
  mpirun -np 1 "$build/train_cifar" --no-run --log-every 1 --eval-every 0 --summary-every 0 "$@"
}
losses() { train --steps 2 "$@" | grep -o ' loss [0-9.]*'; }
same_losses() {  # eager; expected: equal to 3 digits
  local ours cpus
  ours=$(losses --device "$1" --deterministic) && cpus=$(losses --device cpu) || return 1
  paste <(echo "$ours") <(echo "$cpus")
  paste <(echo "$ours") <(echo "$cpus") | awk '{ if (($2 - $4) ^ 2 > (0.005 * $4) ^ 2) wrong = 1 } END { exit wrong || NR != 2 }'
}
export -f train losses same_losses
stage "losses are the CPU's" 60 bash -c "same_losses $device"
precision=bf16
[[ $device == cuda ]] || precision=fp32
stage "three steps" 60 bash -c "train --device $device --steps 3 --precision $precision"

# The training step: one rank eager as on the CPU, the graph as eager, two ranks on one GPU, NCCL. CUDA's errors of a capture:
# 900 illegal call, 901 broken before, 904 a stream was not joined, 905 an event from outside.
step() {  # NAME RANKS FILTER
  stage "$1" 120 mpirun -np "$2" "$tests/gpu_mpi_step" --gtest_filter="TrainingStepOnGpu.$3"
}
if stage "build gpu_mpi_step" 400 bash -c "compile gpu_mpi_step gpu_mpi_reducers gpu_mpi_one_gpu"; then
  step "step eager is the CPU's" 1 "Eager*:Deterministic*"
  step "step graph is eager" 1 "Repeated*"
  step "step 2 ranks share a GPU" 2 "OnRanks*"
  # One rank proves only that NCCL begins and ends: it adds nothing. Its log contains "Init COMPLETE". If it crashes, try
  # NCCL_CUMEM_HOST_ENABLE=0.
  NCCL_DEBUG=INFO stage "NCCL with 1 rank begins" 120 mpirun -np 1 "$tests/gpu_mpi_reducers" --gtest_filter='*/nccl'
  # Sums, graph and abort, over the loopback network. NVIDIA does not support it: a failure here need not be Lockstep's.
  stage "NCCL with 2 ranks on a GPU" 120 mpirun -np 2 "$tests/gpu_mpi_one_gpu"
fi
# Ends by itself, with a steady number of samples/s. Some drivers stall after 10,000 launches of a graph.
stage "train $many steps" 100 bash -c "train --device $device --steps $many --log-every $((many / 3)) --precision $precision"
measure() {  # NAME OPTION...: times steps of the tutorial network. Not all processors have bf16.
  local options=("${@:2}")
  [[ $device == cuda ]] || options=("${options[@]//bf16/fp32}")
  stage "train $1" 60 mpirun -np 1 "$build/train_cifar" --no-run --device $device --steps $steps --log-every $((steps / 3)) \
    --eval-every 0 --summary-every 0 "${options[@]}"
}
measure "128 bf16" --precision bf16

# Kernels and layers, then whole runs and the parts of a step against the CPU.
stage "build gpu_layers" 300 bash -c "compile gpu_layers" && stage "gpu.layers" 120 "$tests/gpu_layers"
stage "build programs" 300 bash -c "compile evaluate train_mnist train_reuters" &&
  stage "gpu.runs" $([[ $device == cuda ]] && echo 240 || echo 1200) bash "$root/tests/gpu/runs.sh" "$build" $device
measure "128 fp32"
for name in $(programs "$root"/tests/gpu/*.cc); do
  [[ $name != device && $name != plans && $name != layers && $name != main ]] || continue
  stage "build gpu_$name" 300 bash -c "compile gpu_$name" && stage "gpu.$name" 120 "$tests/gpu_$name"
done
for name in $(programs "$root"/tests/gpu/mpi/*.cc); do
  stage "build gpu_mpi_$name" 300 bash -c "compile gpu_mpi_$name" || continue
  for ranks in 1 2 4; do stage "gpu.$name.$ranks" 120 mpirun -np $ranks "$tests/gpu_mpi_$name"; done
done
stage "gpu.killed_rank" 120 bash "$root/tests/gpu/killed_rank.sh" "$build"
for batch in 512 2048; do
  for precision in fp32 bf16; do measure "$batch $precision" --global-batch $batch --precision $precision; done
done
LOCKSTEP_GRAPH=off measure "128 bf16 eager" --precision bf16
sanitize() {  # returns 77 if the sanitizer cannot use the device, as in some containers
  local code=0 words
  words=$(compute-sanitizer --error-exitcode 1 "$1" --gtest_filter='-*DoesEveryElementOnce*:*ErrorsAreReportedOnce*' 2>&1) || code=$?
  echo "$words"
  [[ $words != *"Device not supported"* ]] || code=77
  return $code
}
export -f sanitize
if [[ $LOCKSTEP_REQUIRE_GPU != 0 ]] && command -v compute-sanitizer >/dev/null; then
  stage "compute-sanitizer gpu.device" 120 bash -c "sanitize '$tests/gpu_device'"
fi
end
