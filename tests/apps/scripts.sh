#!/usr/bin/env bash
# The scripts that install, build and train: their help, what they report as missing, how many ranks they start, and their
# exit codes and signals. Stand-ins replace the commands that would change the machine.
# usage: scripts.sh BUILD_FOLDER
set -uo pipefail
scripts=$(cd "$(dirname "$0")/../../scripts" && pwd)
folder=$(mktemp -d -t lockstep-scripts.XXXXXX)
trap 'rm -rf "$folder"' EXIT
failures=0

# expect WHAT EXIT_CODE PATTERN COMMAND...: runs the command. Its exit code and one line of its output must match.
expect() {
  local what=$1 wanted=$2 pattern=$3 output code=0
  shift 3
  output=$("$@" 2>&1 </dev/null) || code=$?
  if [[ $code != "$wanted" ]] || ! grep -qE -- "$pattern" <<<"$output"; then
    echo "FAILED: $what: exit code $code, not $wanted, or no line like '$pattern' in:" >&2
    echo "$output" >&2
    failures=$((failures + 1))
  fi
}

stand_in() {  # FOLDER NAME: makes a command of the script on stdin
  mkdir -p "$1"
  { echo '#!/bin/bash'; cat; } >"$1/$2"
  chmod +x "$1/$2"
}

# --- help and unknown options ------------------------------------------------------------------------------------------
expect "help of install" 0 '--check' "$scripts/install_dependencies.sh" --help
expect "help of test" 0 'ctest options' "$scripts/test.sh" --help
expect "help of train names its variables" 0 'LOCKSTEP_RANKS' env LOCKSTEP_BUILD="$1" "$scripts/train.sh" --help
for program in train_cifar train_mnist train_reuters; do
  expect "help of train names $program" 0 "^  LOCKSTEP_PROGRAM.*$program" env LOCKSTEP_BUILD="$1" "$scripts/train.sh" --help
done
expect "help of train contains that of train_cifar" 0 '--checkpoint-every' env LOCKSTEP_BUILD="$1" "$scripts/train.sh" --help
expect "unknown option of install" 2 'unknown option --bogus. Use --tests' "$scripts/install_dependencies.sh" --bogus
expect "bad number of ranks" 2 'LOCKSTEP_RANKS=two is not a number' env LOCKSTEP_RANKS=two "$scripts/train.sh"

# --- install_dependencies.sh on machines with missing packages ---------------------------------------------------------
install() {  # FOLDER OPTION...: runs the script with FOLDER first on PATH
  local first=$1
  shift
  env PATH="$first:$PATH" "$scripts/install_dependencies.sh" "$@"
}
with_apt=$folder/apt
mkdir "$with_apt"
stand_in "$with_apt" dpkg-query <<<'for p in "${@:4}"; do [[ $p == libfmt-dev && ! -e $(dirname "$0")/done ]] || echo "$p installed"; done'
stand_in "$with_apt" apt-get <<<'echo "$*" >>"$(dirname "$0")/log"; [[ $* != *"install -y --no-install-recommends libfmt-dev" ]] || touch "$(dirname "$0")/done"'
stand_in "$with_apt" id <<<'echo 0'
expect "--check names missing packages" 1 'libfmt-dev +fmt, for text' install "$with_apt" --check
[[ ! -e $with_apt/log ]] || { echo "FAILED: --check called apt-get" >&2; failures=$((failures + 1)); }
expect "it installs only this" 0 'libfmt-dev +fmt, for text' install "$with_apt"
expect "apt-get installed it" 0 'install -y --no-install-recommends libfmt-dev$' cat "$with_apt/log"
expect "the package lists were not refreshed" 1 '^0$' grep -c update "$with_apt/log"
expect "nothing is missing afterwards" 0 '^$' install "$with_apt" --check

stand_in "$folder/no_docs" dpkg-query <<<'for p in "${@:4}"; do [[ $p == mkdocs ]] || echo "$p installed"; done'
cp "$with_apt"/{apt-get,id} "$folder/no_docs"
expect "--docs names the tools of the documentation" 1 '^  mkdocs ' install "$folder/no_docs" --docs --check
expect "nothing else needs them" 0 '^$' install "$folder/no_docs" --tests --check
HOSTTYPE=aarch64 "$scripts/install_dependencies.sh" --list >"$folder/packages"
expect "ARM needs no oneDNN" 1 '^0$' grep -c libdnnl-dev "$folder/packages"
# A test that is skipped without a package of Debian names it, and --tests installs it.
"$scripts/install_dependencies.sh" --tests --list >"$folder/packages"
for package in $(grep -rhoE --include='*.sh' --include='*.py' 'apt install [a-z0-9 -]+' "$scripts/../tests" | cut -d' ' -f3-); do
  [[ $package == plots ]] || expect "--tests installs $package" 0 "^$package$" cat "$folder/packages"
done

rm "$with_apt/done"
stand_in "$with_apt" apt-get <<<'[[ $* != *install* ]] || { echo "E: Unable to locate package libfmt-dev"; exit 100; }'
expect "a failed installation prints the reason" 1 'Unable to locate package libfmt-dev' install "$with_apt"
expect "and what to do, in one line" 1 'apt-get install failed .*universe' install "$with_apt"
stand_in "$with_apt" apt-get <<<'echo "E: Could not resolve host"; exit 100'
expect "no network" 1 'apt-get update failed .*network' install "$with_apt"

stand_in "$with_apt" id <<<'echo 1000'
stand_in "$with_apt" sudo <<<'echo "sudo: $*"; exit 1'
stand_in "$with_apt" c++ <<<''
expect "a library without a record of dpkg is not installed" 0 '^$' install "$with_apt"
expect "--check does not name it" 0 '^$' install "$with_apt" --check
stand_in "$with_apt" c++ <<<'! grep -q fmt/format.h'
expect "sudo is announced" 1 'sudo may ask for your password' install "$with_apt"
expect "a refusal of sudo names the packages" 1 'sudo was refused.*apt-get install libfmt-dev$' install "$with_apt"

# Without root and sudo, and on other systems, the script looks for compilers and headers.
bare=$folder/bare
mkdir "$bare"
for command in bash cat cut env grep dirname xargs id sed; do ln -s "$(command -v $command)" "$bare/$command"; done
stand_in "$bare" c++ <<<'! grep -q dnnl.hpp'
for command in cmake ninja git pkg-config mpirun mpicxx; do stand_in "$bare" $command <<<''; done
other_system() { env -i PATH="$bare" "$scripts/install_dependencies.sh" "$@"; }
expect "another system: a missing command" 1 'protoc|protobuf-compiler' other_system
expect "another system: a missing header" 1 'libdnnl-dev +oneDNN' other_system
expect "another system: what to do" 1 'cannot install the missing packages here.*CMAKE_PREFIX_PATH' other_system
stand_in "$bare" c++ <<<''
stand_in "$bare" protoc <<<''
expect "another system with all packages" 0 '^$' other_system
expect "tools of tests are named, and their tests skipped" 0 'tests that need these packages are skipped' other_system --tests
expect "but --check fails" 1 'libsimgrid-dev +SimGrid' other_system --tests --check

# --- train.sh: ranks, exit codes, signals ----------------------------------------------------------------------------
# A build folder that is up to date, and an mpirun that prints its arguments.
launcher=$folder/launcher
build=$folder/build
mkdir "$build"
touch "$build/CMakeCache.txt"
for program in train_cifar train_mnist; do stand_in "$build" $program <<<''; done
cp "$1/lockstep_run" "$build"
stand_in "$launcher" cmake <<<''
stand_in "$launcher" dpkg-query <<<'for p in "${@:4}"; do echo "$p installed"; done'
stand_in "$launcher" mpirun <<<'echo "called: $* oversubscribe=$OMPI_MCA_rmaps_base_oversubscribe binding=$OMPI_MCA_hwloc_base_binding_policy"
echo "quiet=$OMPI_MCA_orte_execute_quiet$PRTE_MCA_prte_execute_quiet"
exit ${CODE:-0}'
train=(env -u OMPI_MCA_orte_execute_quiet -u PRTE_MCA_prte_execute_quiet -u OMPI_MCA_rmaps_base_oversubscribe -u OMPI_MCA_hwloc_base_binding_policy PATH="$launcher:$PATH" LOCKSTEP_BUILD="$build")
echo "CMAKE_HOME_DIRECTORY:INTERNAL=$folder/other" >"$folder/cache"
mkdir "$folder/copy" && cp "$folder/cache" "$folder/copy/CMakeCache.txt"
for script in train test; do
  expect "a copied build folder, $script" 1 "^$script.sh: $folder/copy .*$folder/other.* LOCKSTEP_BUILD=" "${train[@]}" LOCKSTEP_BUILD="$folder/copy" "$scripts/$script.sh"
done
ln -s "$(dirname "$scripts")" "$folder/link"
echo "CMAKE_HOME_DIRECTORY:INTERNAL=$folder/link" >"$build/CMakeCache.txt"
one_core=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*\([0-9]*\).*/\1/p' /proc/self/status)
expect "options go to train_cifar" 0 "called: .*$build/train_cifar --steps 3 --lr 0.1 " "${train[@]}" "$scripts/train.sh" --steps 3 --lr 0.1
expect "another program" 0 "called: .*$build/train_mnist --steps 3 " "${train[@]}" LOCKSTEP_PROGRAM=train_mnist "$scripts/train.sh" --steps 3
expect "no boxes of advice beside errors" 0 '^quiet=1$' "${train[@]}" "$scripts/train.sh"
expect "your choice of boxes stays" 0 '^quiet=01$' "${train[@]}" OMPI_MCA_orte_execute_quiet=0 "$scripts/train.sh"
expect "exit code 75 is passed on" 75 'called' "${train[@]}" CODE=75 "$scripts/train.sh"
expect "exit code 1 is passed on" 1 'called' "${train[@]}" CODE=1 "$scripts/train.sh"
expect "one rank if one core is allowed" 0 'called: .*-np 1 .* oversubscribe= ' "${train[@]}" taskset -c "$one_core" "$scripts/train.sh"
expect "more ranks than cores" 0 'called: .*-np 3 .* oversubscribe=1 binding=none' "${train[@]}" LOCKSTEP_RANKS=3 taskset -c "$one_core" "$scripts/train.sh"

# --- train.sh: the GPUs of the first build, and its progress -----------------------------------------------------------
stand_in "$folder/cuda" nvcc <<<'[[ $1 != --list-gpu-arch ]] || printf "compute_%s\n" 80 86 90 100'
stand_in "$folder/gpu" nvidia-smi <<<'printf "9.0\n8.6\n9.0\n"'
stand_in "$folder/no_gpu" nvidia-smi <<<'echo "No devices were found"; exit 6'
stand_in "$folder/new_gpu" nvidia-smi <<<'echo 99.0'
stand_in "$folder/configured" cmake <<<'echo "cmake $*" >>"$CALLS"
if [[ $1 == --build ]]; then cp "$(dirname "$CALLS")"/build/{lockstep_run,train_cifar} "$2"; echo "[1/3] Building a"; sleep 1.2; echo "[2/3] Building b"; echo "[ 66%] c"; fi'
cp "$launcher/dpkg-query" "$launcher/mpirun" "$folder/configured"
stand_in "$folder/configured" ls <<<'exit 2'  # hides /proc/driver/nvidia of this machine
# first_build NAME PATTERN WORDS [VARIABLE=VALUE...]: train.sh prints PATTERN and calls cmake with WORDS. $first is first on
# PATH.
first_build() {
  local what=$1 pattern=$2 words=$3
  shift 3
  rm -f "$folder/calls"
  expect "$what" 0 "$pattern" "${train[@]}" CALLS="$folder/calls" PATH="$first:$folder/cuda:$folder/configured:$PATH" \
    LOCKSTEP_BUILD="$folder/fresh" LOCKSTEP_PROGRESS_SECONDS=1 "$@" "$scripts/train.sh"
  expect "$what: cmake" 0 "$words" head -n 1 "$folder/calls"
}
first=$folder/no_gpu
first_build "nvcc, but no GPU" 'no GPU.*LOCKSTEP_CUDA=ON' '-DLOCKSTEP_CUDA=OFF$'
first_build "a build for GPUs of other machines" '^called' '-DLOCKSTEP_CUDA=ON$' LOCKSTEP_CUDA=ON
first_build "a line shows the progress of the build" '^train.sh: building, 2 of 3 files$' '-DLOCKSTEP_CUDA=OFF$' LOCKSTEP_CUDA=0
expect "a wrong setting" 2 'LOCKSTEP_CUDA is maybe' "${train[@]}" LOCKSTEP_CUDA=maybe "$scripts/train.sh"
first=$folder/gpu
first_build "the GPUs of this machine" '^called' '-DCMAKE_CUDA_ARCHITECTURES=86-real;90a-real$'
first=$folder/new_gpu
first_build "a GPU that this nvcc does not know" '^called' '-DLOCKSTEP_BENCH=OFF$'
mkdir -p "$folder/fresh"
echo 'LOCKSTEP_CUDA:STRING=OFF' >"$folder/fresh/CMakeCache.txt"
first=$folder/gpu
first_build "a build without CUDA on a machine with a GPU" 'without CUDA.*LOCKSTEP_CUDA=ON' '--build'
first_build "LOCKSTEP_CUDA=ON changes it" '^called' '-DLOCKSTEP_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=86-real;90a-real$' LOCKSTEP_CUDA=ON
first=$folder/no_gpu
first_build "an existing build keeps its settings" '^called' '--build'
rm -r "$folder/fresh"

# After SIGUSR1 the launcher needs a moment for its checkpoint. Its exit code must still arrive.
stand_in "$launcher" mpirun <<<'[[ -n $PMIX_RANK ]] || PMIX_RANK=0 exec "$0" "$@"
trap "sleep 0.5; echo saved; exit 75" USR1; echo started >"$STARTED"; for i in {1..100}; do sleep 0.1; done'
for signal in TERM HUP USR1; do
  rm -f "$folder/started"
  "${train[@]}" STARTED="$folder/started" "$scripts/train.sh" >"$folder/output" 2>&1 </dev/null &
  script=$!
  for ((try = 0; try < 100; try++)); do [[ ! -e $folder/started ]] || break; sleep 0.1; done
  kill -$signal $script
  code=0
  wait $script || code=$?
  if [[ $code != 75 ]] || ! grep -q saved "$folder/output"; then
    echo "FAILED: SIG$signal: exit code $code, not 75, or no checkpoint:" >&2
    cat "$folder/output" >&2
    failures=$((failures + 1))
  fi
done

# --- another build folder, and an installation -------------------------------------------------------------------------
mkdir "$folder/other"
echo 'CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere' >"$folder/other/CMakeCache.txt"
with_all=(env PATH="$folder/all:$PATH")
stand_in "$folder/all" dpkg-query <<<'for p in "${@:4}"; do echo "$p installed"; done'
expect "a build folder of other sources: use another folder" 1 'test.sh: .* belongs to the sources in /elsewhere.*LOCKSTEP_BUILD=FOLDER' \
  "${with_all[@]}" LOCKSTEP_BUILD="$folder/other" "$scripts/test.sh"
expect "its files are unchanged" 0 '^CMAKE_HOME_DIRECTORY' cat "$folder/other/CMakeCache.txt"

# ctest runs what cmake has configured, and the last line names the skipped tests.
stand_in "$folder/all" cmake <<<'echo "cmake $*" >>"$(dirname "$0")/calls"'
mkdir "$folder/tested"
touch "$folder/tested/CMakeCache.txt"
cat >"$folder/tested/CTestTestfile.cmake" <<'END'
add_test(apps.plots "echo" "skipped: no plots (apt install plots)")
add_test(apps.passes "echo" "skipped: an internal error")
add_test(apps.none "false")
set_tests_properties(apps.none PROPERTIES WILL_FAIL ON)
set_tests_properties(apps.plots PROPERTIES SKIP_REGULAR_EXPRESSION plots)
END
in_tested=("${with_all[@]}" LOCKSTEP_BUILD="$folder/tested" "$scripts/test.sh")
expect "the skipped tests" 0 '^test.sh: skipped: apps.plots: no plots \(apt install plots\)$' "${in_tested[@]}"
expect "nothing was skipped" 0 '^test.sh: skipped: nothing$' "${in_tested[@]}" -R none
expect "tests are configured in a build folder without them" 0 '^cmake -S .* -B .*/tested -DLOCKSTEP_TESTS=ON' cat "$folder/all/calls"
expect "no tests are an error" 8 'No tests were found' "${in_tested[@]}" -R frobnicate

expect "an installation" 0 'bin/train_cifar$' cmake --install "$1" --prefix "$folder/prefix"
expect "runs" 0 '^train_cifar [0-9]' "$folder/prefix/bin/train_cifar" --version
expect "also the other program" 0 '[0-9]+\.[0-9]' "$folder/prefix/bin/evaluate" --version
expect "with its manual" 0 '^# Lockstep' cat "$folder/prefix/share/doc/lockstep/README.md"

# --- the files of container images name what exists --------------------------------------------------------------------
check_image() {  # FILE: both files install packages by the script alone, and pass options that CMake knows
  local file=$1 option
  expect "$file installs by the script" 0 'lockstep/scripts/install_dependencies.sh$' cat "$file"
  expect "$file lists no packages of its own" 1 "^0$" grep -c apt-get "$file"
  for option in $(grep -oE 'LOCKSTEP_[A-Z]+=[^ ]' "$file" | sed 's/=.*//' | grep -v LOCKSTEP_IMAGE); do
    expect "$file: $option is an option of CMake" 0 "$option" grep -rhE "(set|option)\\($option " "$scripts/../CMakeLists.txt" "$scripts/../cmake"
  done
}
images=$scripts/../slurm
check_image "$images/Containerfile"
check_image "$images/lockstep.def"
# The script finds all that it needs among the files that the image has when it runs.
mkdir "$folder/image"
for file in $(sed -n 's/^COPY \(scripts.*\) .*/\1/p' "$images/Containerfile"); do cp "$scripts/../$file" "$folder/image/"; done
expect "the script runs in the image" 0 '^$' "${with_all[@]}" "$folder/image/install_dependencies.sh" --check

[[ $failures == 0 ]] && echo "all checks pass" || exit 1
