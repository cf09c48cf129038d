#!/bin/bash
# h5py on a checkpoint of ours, and scripts/print_weights.py. $1: build folder. Skipped where no python has the package h5py.
set -eu
build=$1
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../scripts" && pwd)
for python in python3 /usr/bin/python3 none; do
  "$python" -c 'import h5py' 2>/dev/null && break
done
if [ "$python" = none ]; then
  echo "skipped: no python has the package h5py (apt install python3-h5py)"
  exit 77
fi
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
CHECKPOINT_DIRECTORY=$directory "$build/tests/checkpoint" --gtest_also_run_disabled_tests --gtest_filter=Checkpoint.DISABLED_WritesForH5py
file=$directory/step-0000001000.h5

"$python" - "$file" <<'END'
import sys
import h5py
import numpy

with h5py.File(sys.argv[1], "r") as file:
    attributes = {name: file.attrs[name] for name in file.attrs}
    assert attributes["step"] == 1000 and attributes["samples"] == 128000 and attributes["epoch"] == 2, attributes
    assert int(attributes["seed"]) == 2**64 - 1, attributes
    model = attributes["model"]
    assert (model.decode() if isinstance(model, bytes) else model) == "tutorial", attributes
    for section in ("parameters", "optimizer/momentum"):
        weights = file[section + "/dense/weights"]
        assert weights.shape == (1000, 700) and weights.dtype == numpy.dtype("<f4") and weights.fletcher32, weights
        assert (weights[()].ravel() == numpy.arange(700000, dtype="<f4")).all()
        assert file[section + "/conv1/biases"].fletcher32
END

printed=$("$python" "$scripts/print_weights.py" "$file")
echo "$printed"
grep -qE '^parameters/dense/weights +\(1000, 700\) +mean \+349999\.' <<<"$printed"
grep -qF "18446744073709551615" <<<"$printed"

# Errors are one line with a non-zero exit code; a reader that leaves early is none.
fails() {  # CODE PATTERN ARGUMENTS...
  local wanted=$1 pattern=$2 output code=0
  shift 2
  output=$(timeout 30 "$python" "$scripts/print_weights.py" "$@" 2>&1 >/dev/null) || code=$?
  [[ $code == "$wanted" && $(wc -l <<<"$output") == 1 && $output =~ $pattern ]] ||
    { echo "print_weights.py $*: exit code $code and: $output"; exit 1; }
}
fails 2 file
fails 2 file "$file" "$file"
fails 1 nowhere.h5 "$directory/nowhere.h5"
fails 1 "${BASH_SOURCE[0]}" "${BASH_SOURCE[0]}"
"$python" -c 'import sys, h5py; h5py.File(sys.argv[1], "w").close()' "$directory/empty.h5"
fails 1 empty.h5 "$directory/empty.h5"
"$python" - "$file" "$directory/text.h5" <<'END'
import sys, shutil, h5py
shutil.copy(sys.argv[1], sys.argv[2])
with h5py.File(sys.argv[2], "r+") as file:
    file["text"] = "no number"
END
fails 1 text.h5 "$directory/text.h5"
mkdir "$directory/none"
fails 1 none "$directory/none"
mkfifo "$directory/pipe.h5"
fails 1 pipe.h5 "$directory/pipe.h5"
"$python" "$scripts/print_weights.py" --help | grep -q '^usage: '
quit=$({ "$python" "$scripts/print_weights.py" "$file" 2>&1 >&3; echo "exit code $?"; } 3> >(:))
[[ $quit == 'exit code 0' ]] || { echo "print_weights.py for a reader that leaves early: $quit"; exit 1; }
