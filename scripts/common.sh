# Functions that the scripts share (sourced, not run): the build folder, a build that is quiet unless it fails, and the
# settings of mpirun.
# LOCKSTEP_BUILD names another build folder. A folder that is already configured keeps its settings.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$(realpath -m "${LOCKSTEP_BUILD:-$root/build}")
me=$(basename "$0")

fail() {
  echo "$me: $1" >&2
  exit "${2:-1}"
}

# Fails if the build folder is a copy. It still belongs to the sources that it was configured for, and CMake would build those.
require_own_build() {
  local sources
  sources=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$build/CMakeCache.txt" 2>/dev/null) || true
  if [[ -n $sources && $(realpath -m "$sources") != $(realpath -m "$root") ]]; then
    fail "$build belongs to the sources in $sources, not to $root. Use another folder: LOCKSTEP_BUILD=FOLDER $0"
  fi
}

# configure [-DNAME=VALUE]...: uses the preset release. In a LOCKSTEP_BUILD that is already configured it changes only
# these values.
configure() {
  local preset=(--preset release)
  if [[ -n ${LOCKSTEP_BUILD:-} && -f $build/CMakeCache.txt ]]; then preset=(-S "$root"); fi
  mkdir -p "$build" || fail "cannot create $build. Set LOCKSTEP_BUILD to a folder that you can write to."
  (cd "$root" && cmake "${preset[@]}" -B "$build" "$@") >"$build/configure.log" 2>&1 || {
    tail -n 30 "$build/configure.log" >&2
    fail "configuring failed (see above; full log: $build/configure.log). $another_folder"
  }
}
another_folder="If $build belongs to other sources, another compiler or other libraries, use another folder: LOCKSTEP_BUILD=FOLDER $0"

# compile [--target NAME...]: shows ninja's progress line on a terminal, otherwise one line every 20 s. If the build fails,
# it prints the errors.
compile() {
  local log=$build/build.log
  if [[ -t 2 ]]; then
    cmake --build "$build" "$@" >&2 && return
  else
    cmake --build "$build" "$@" 2>&1 | keep_log "$log" && return
    { grep -A 4 -E 'error:|undefined reference|No space left' "$log" || tail -n 30 "$log"; } | head -n 40 >&2
  fi
  fail "the build in $build failed (see above). $another_folder"
}

# keep_log FILE: copies standard input to FILE and prints the progress. It knows the lines of ninja ("[120/210] Building ...")
# and make ("[ 57%] Building ...").
keep_log() {
  local line pause=${LOCKSTEP_PROGRESS_SECONDS:-20} next
  next=$(($(uptime_seconds) + pause))
  while IFS= read -r line; do
    printf '%s\n' "$line"
    if (($(uptime_seconds) >= next)) && [[ $line =~ ^\[\ *([0-9]+)(/([0-9]+)|%)\] ]]; then
      if [[ ${BASH_REMATCH[3]} ]]; then
        echo "$me: building, ${BASH_REMATCH[1]} of ${BASH_REMATCH[3]} files" >&2
      else
        echo "$me: building, ${BASH_REMATCH[1]} %" >&2
      fi
      next=$(($(uptime_seconds) + pause))
    fi
  done >"$1"
}

# Prints the seconds since the boot. SECONDS and date follow a clock that may be set.
uptime_seconds() {
  local seconds
  read -r seconds _ </proc/uptime
  echo "${seconds%.*}"
}

# Prints the compute capabilities of this machine's GPUs, one per line, such as 9.0. Prints "unknown" if nvidia-smi fails
# and the driver lists a GPU.
gpus() {
  local found
  found=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | grep -xE '[0-9]+\.[0-9]+' | sort -u) ||
    found=$(ls /proc/driver/nvidia/gpus 2>/dev/null | sed '1!d; s/.*/unknown/') || true
  if [[ -n $found ]]; then echo "$found"; fi
}

find_nvcc() {
  local file
  for file in "${CUDACXX:-}" "$(command -v nvcc)" {"${CUDA_PATH:-}","${CUDA_HOME:-}",/usr/local/cuda}/bin/nvcc; do
    if [[ -x $file ]]; then echo "$file"; return; fi
  done
  return 1
}

# Sets `cuda` to CMake's options for LOCKSTEP_CUDA (ON, OFF, AUTO). By default CMake compiles kernels only for the GPUs of
# this machine. Kernels for all kinds of GPUs take minutes more.
choose_cuda() {
  local nvcc capabilities capability number architectures=()
  cuda=()
  case ${LOCKSTEP_CUDA:-} in
    '') ;;
    1) cuda=(-DLOCKSTEP_CUDA=ON) ;;
    0) cuda=(-DLOCKSTEP_CUDA=OFF) ;;
    ON | OFF | AUTO) cuda=("-DLOCKSTEP_CUDA=$LOCKSTEP_CUDA") ;;
    *) fail "LOCKSTEP_CUDA is $LOCKSTEP_CUDA. Set it to ON, OFF or AUTO, or unset it." 2 ;;
  esac
  nvcc=$(find_nvcc) || return 0
  mapfile -t capabilities < <(gpus)
  if [[ ${#capabilities[@]} == 0 ]]; then
    if [[ ${#cuda[@]} == 0 ]]; then cuda=(-DLOCKSTEP_CUDA=OFF); fi
    return
  fi
  for capability in "${capabilities[@]}"; do
    number=${capability/./}
    "$nvcc" --list-gpu-arch 2>/dev/null | grep -x "compute_$number" >/dev/null || return 0  # nvcc does not know this GPU: CMake chooses
    architectures+=("${number/#90/90a}-real")  # cmake/cuda.cmake does the same
  done
  cuda+=("-DCMAKE_CUDA_ARCHITECTURES=$(IFS=';'; echo "${architectures[*]}")")
}

# Prints how many physical cores this process may use: those in its affinity mask, at most the control group's quota.
usable_cores() {
  local cores quota
  cores=$(lscpu -p=CPU,CORE,SOCKET 2>/dev/null |
    awk -F, -v allowed="$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)" '
      BEGIN { n = split(allowed, part, ",")
              for (i = 1; i <= n; i++) { m = split(part[i], end, "-")
                for (cpu = end[1]; cpu <= end[m]; cpu++) may[cpu] = 1 } }
      !/^#/ && ($1 in may) { core[$2 "," $3] = 1 }
      END { for (c in core) count++; print count + 0 }')
  [[ $cores -gt 0 ]] || cores=$(nproc)
  quota=$(quota_cores)
  if [[ $quota -gt 0 && $quota -lt $cores ]]; then cores=$quota; fi
  echo "$cores"
}

# Prints how many whole processors the control groups (version 2, then 1) grant. 0 means no limit.
quota_cores() {
  local group quota period least=0 line
  group=$(sed -n 's/^0:://p' /proc/self/cgroup 2>/dev/null)
  {
    while :; do
      cat "/sys/fs/cgroup${group%/}/cpu.max" 2>/dev/null || true
      if [[ -z ${group%/} ]]; then break; fi
      group=${group%/*}
    done
    paste -d' ' /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu/cpu.cfs_period_us 2>/dev/null || true
  } | {
    while read -r quota period; do
      [[ $quota =~ ^[0-9]+$ && $period =~ ^[0-9]+$ ]] || continue
      line=$((quota / period > 0 ? quota / period : 1))
      if [[ $least == 0 || $line -lt $least ]]; then least=$line; fi
    done
    echo "$least"
  }
}

# Without these variables Open MPI refuses to run as root, the only user of many containers.
as_root_variables() {
  if [[ $(id -u) == 0 ]]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
}

# Exports variables for Open MPI 4 (OMPI_MCA_) and 5 (PRTE_MCA_). Variables that the user has set keep their values.
mpi_variables() {  # ranks, usable cores
  as_root_variables
  # mpirun must not print boxes of advice after the program's own error.
  : "${OMPI_MCA_orte_execute_quiet:=1}" "${PRTE_MCA_prte_execute_quiet:=1}"
  : "${OMPI_MCA_regx:=naive}"  # the default of Open MPI 4 refuses hosts with an underscore in their name
  export OMPI_MCA_orte_execute_quiet PRTE_MCA_prte_execute_quiet OMPI_MCA_regx
  # Open MPI binds each of one or two ranks to one core, for any number of threads. It counts from core 0 even if other jobs
  # use it. Both are right only if the ranks fill the machine.
  if [[ $1 != "$2" || $2 != "$(lscpu -p=CORE,SOCKET | grep -v '^#' | sort -u | wc -l)" ]]; then
    : "${OMPI_MCA_hwloc_base_binding_policy:=none}" "${PRTE_MCA_hwloc_default_binding_policy:=none}"
    export OMPI_MCA_hwloc_base_binding_policy PRTE_MCA_hwloc_default_binding_policy
  fi
  if [[ $1 -gt $2 ]]; then
    echo "$me: more ranks than cores ($1 ranks, $2 cores). The ranks take turns, so training is not faster." >&2
    : "${OMPI_MCA_rmaps_base_oversubscribe:=1}" "${PRTE_MCA_rmaps_default_mapping_policy:=:oversubscribe}"
    : "${OMPI_MCA_mpi_yield_when_idle:=1}"
    export OMPI_MCA_rmaps_base_oversubscribe PRTE_MCA_rmaps_default_mapping_policy OMPI_MCA_mpi_yield_when_idle
  fi
}
