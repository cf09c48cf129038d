#!/usr/bin/env bash
# Builds, tests and measures everything that needs a GPU, on a machine with a GPU, the CUDA toolkit and a compiler. The most
# important results come first, and a table grows with them, so an interrupted run loses only the end.
set -uo pipefail

usage() {
  cat <<'HELP'
usage: tests/gpu.sh [DEPENDENCIES [RESULTS]]

Builds with the CUDA back end for the GPU of this machine, runs all tests on it, and trains for speed.
  DEPENDENCIES  a folder with the libraries of scripts/install_dependencies.sh and an env.sh that puts them on the paths of
                compiler, linker and CMake (default: .deps, if it is there; else those of the system)
  RESULTS       where table.txt, machine.txt and results.tar.gz with all logs go (default: $OUT, else results in the build
                folder)
cmake and ninja must be on the PATH (pip has both), and CUDNN_FRONTEND_ROOT must name the headers of cuDNN's front end where
scripts/get_cudnn_frontend.sh was not run. The exit code is 0 if nothing failed. If train_cifar cannot set up
the GPU, nothing else runs.

Environment:
  LOCKSTEP_BUILD        build folder (default: build-gpu); one that is configured keeps its settings
  LOCKSTEP_REQUIRE_GPU  0: without a GPU the tests are skipped instead of failing (default: 1)
  LOCKSTEP_SECONDS      when to stop (default: 570)
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
  . "$dependencies/env.sh"
  set -u
elif [[ -n ${1:-} ]]; then
  die "there is no env.sh in $dependencies"
fi
logs=$build/gpu-logs
mkdir -p "$results" "$build" "$logs" || die "cannot create $results and $logs: name other folders"
rm -f "$logs"/*.log
: >"$results/table.txt"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_btl=^tcp OMP_NUM_THREADS=1

row() {  # WHAT RESULT SECONDS WORDS
  printf '%-34s %-8s %5s s  %s\n' "$@" | tee -a "$results/table.txt"
}
# One file instead of 40, because a machine with a GPU may be lent for minutes. After each failure and at the end.
pack() {
  local names
  mapfile -t names < <(ls "$logs")
  tar -czf "$results/results.tar.gz" -C "$results" table.txt machine.txt -C "$logs" "${names[@]}"
}
# NAME LIMIT COMMAND...: one row; its output is NAME.log, with '_' for blanks. `words` of the row: the last telling line of
# the log. A failure prints the log's end.
stage() {
  local name=$1 limit=$2 log=$logs/${1// /_}.log code=0 began=$SECONDS result words
  shift 2
  if ((SECONDS >= last)); then row "$name" cut 0 "no time left"; return 1; fi
  if ((limit > last - SECONDS)); then limit=$((last - SECONDS)); fi
  timeout --kill-after=5 "$limit" "$@" >"$log" 2>&1 </dev/null || code=$?
  words=$(grep -aE '^\[ +(PASSED|FAILED) +\] [0-9]+|^(skipped|LOCKSTEP_REQUIRE_GPU|train_cifar: )|images/s|rror' "$log" | tail -n 1 | cut -c1-150)
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
set_up() {  # the GPU, by the program itself; 77: none is here and none is required
  local code=0 words
  words=$("$build/train_cifar" --device cuda --check 2>&1) || code=$?
  echo "$words"
  [[ $code == 0 || $LOCKSTEP_REQUIRE_GPU != 0 || $words != *"no CUDA device"* ]] || code=77
  return $code
}
programs() { for file in "$@"; do basename "$file" .cc; done; }  # names of tests, without main
export -f compile set_up
export build

{
  nvidia-smi
  nvcc --version
  c++ --version
} >"$results/machine.txt" 2>&1
row "machine" "" "" "$(nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader 2>/dev/null | paste -sd';' || true)"

if [[ ! -f $build/CMakeCache.txt ]]; then
  architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d .)
  if [[ $architecture == 90 ]]; then architecture=90a; fi
  stage configure 120 cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DLOCKSTEP_CUDA=ON \
    ${architecture:+"-DCMAKE_CUDA_ARCHITECTURES=$architecture-real"} || end
fi

# A GPU that cannot be set up fails every other row too, so that their builds would be lost time.
stage "build train_cifar" 400 bash -c "compile train_cifar" || end
stage "check" 120 bash -c set_up || [[ $? == 77 ]] || end

# The joint, its bodies and layers; then the programs; then all that ranks do together.
for name in device layers; do
  stage "build gpu_$name" 400 bash -c "compile gpu_$name" && stage "gpu.$name" 120 "$build/tests/gpu_$name"
done
measure() {  # NAME OPTIONS...: 300 steps of the tutorial's network
  stage "train $1" 60 mpirun -np 1 "$build/train_cifar" --device cuda --steps 300 --log-every 100 --eval-every 0 \
    --summary-every 0 "${@:2}"
}
if [[ $LOCKSTEP_REQUIRE_GPU != 0 ]]; then
  measure "128 fp32"
  measure "128 bf16" --precision bf16
  measure "128 fp16" --precision fp16
fi
stage "gpu.killed_rank" 120 bash "$root/tests/gpu/killed_rank.sh" "$build"
for name in $(programs "$root"/tests/gpu/mpi/*.cc); do
  stage "build gpu_mpi_$name" 300 bash -c "compile gpu_mpi_$name" || continue
  for ranks in 1 2 4; do stage "gpu.$name.$ranks" 120 mpirun -np $ranks "$build/tests/gpu_mpi_$name"; done
done
for name in $(programs "$root"/tests/gpu/*.cc); do
  [[ $name != device && $name != layers && $name != main ]] || continue
  stage "build gpu_$name" 300 bash -c "compile gpu_$name" && stage "gpu.$name" 120 "$build/tests/gpu_$name"
done
if [[ $LOCKSTEP_REQUIRE_GPU != 0 ]]; then
  for batch in 512 2048; do
    for precision in fp32 bf16 fp16; do measure "$batch $precision" --global-batch $batch --precision $precision; done
  done
  measure "128 bf16 eager" --precision bf16 --no-graph
  if command -v compute-sanitizer >/dev/null; then
    stage "compute-sanitizer gpu.device" 120 compute-sanitizer --error-exitcode 1 "$build/tests/gpu_device" \
      --gtest_filter='-*DoesEveryElementOnce*:*ErrorsAreReportedOnce*'
  fi
fi
end
