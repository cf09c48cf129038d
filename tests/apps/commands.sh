#!/usr/bin/env bash
# Every command of README.md and docs/getting-started.md runs as it is printed, except for fewer steps and ranks.
# The build, the tests, the download and the batch job are stand-ins; each has a test of its own.
# usage: commands.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=SCRIPTDIR/lib_clone.sh
. "$(dirname "$0")/lib_clone.sh"

for name in README.md docs/getting-started.md; do
  page_works "$name"
  rm -rf "$clone/data" "$clone/runs"
done
expect "the script submits the documented job" grep -q 'sbatch .*slurm/train_cifar.sbatch -- --data' "$folder/called"

# A page with a block that fails is found.
wrong() {  # WHAT TEXT
  printf '%s\n' "# Page" "" "$2" >"$folder/page.md"
  page "$folder/page.md"
  expect "$1 fails the test" [ $code = 1 ]
}
wrong "a wrong command" '    scripts/train.sh --no-such-option'
wrong "a wrong output" $'    build/evaluate --help\n\n```text\nnever printed\n```'
wrong "a wrong network" $'```toml\nsample = [32, 32, 3]\nlayers = [{type = "dens", features = 10}]\n```'
wrong "a wrong Python program" $'    import h5py\n    h5py.File("nowhere.h5")'
wrong "a block of an unknown kind" $'```cpp\nint x;\n```'
finish
