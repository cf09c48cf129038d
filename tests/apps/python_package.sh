#!/usr/bin/env bash
# The Python package from its wheel: it reads a checkpoint and a run of train_mnist, and plots the run.
# usage: python_package.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
for python in python3 /usr/bin/python3 none; do
  "$python" -c 'import h5py, matplotlib, setuptools, wheel, pip, venv' 2>/dev/null && break
done
[[ $python != none ]] ||
  skip "no python has h5py, matplotlib, setuptools, wheel, pip and venv (apt install python3-pip python3-venv python3-wheel)"
limit=200

# setuptools writes into the folder of the sources. Nothing may come from the network.
cp -rL "$here/../../scripts" "$folder/sources"
run "$python" -m pip wheel --no-deps --no-index --no-build-isolation --wheel-dir "$folder" "$folder/sources"
expect "a wheel is built" test $code = 0
version=$("$build/train_mnist" --version | sed 's/^train_mnist \([0-9.]*\).*/\1/')
run "$python" -m venv --without-pip --system-site-packages "$folder/venv"
run "$python" -m pip --python "$folder/venv/bin/python" install --no-index --no-deps "$folder/lockstep-$version-py3-none-any.whl"
expect "the wheel of version $version is installed" test $code = 0

small_data "$folder/data"
ranks 1 train_mnist "${small[@]}" --data "$folder/data/mnist" --steps 4 --eval-every 4 --ema 0.5 --run "$folder/run"
expect "train_mnist trains" test $code = 0
file=$(step_file "$folder/run" 4)
cd "$folder" || exit 1
cat >read.py <<'END'
import pathlib
import sys
import lockstep
model, arrays = lockstep.read_checkpoint(pathlib.Path(sys.argv[1]))
rows = lockstep.read_run(pathlib.Path(sys.argv[2]))
print(model, arrays["conv1/weights"].shape, len(rows["train"]), len(rows["evaluation"]))
END
run venv/bin/python read.py "$file" run
expect_line "the package reads both" '^deep_mnist \(32, 5, 5, 1\) 4 1$'
run venv/bin/lockstep-print-weights "$file"
expect_line "it prints the arrays" '^ema/conv1/weights mean std'
run venv/bin/lockstep-plot-run run/metrics.jsonl run.svg
expect "it plots the run" grep -q '<svg' run.svg
run venv/bin/python -c 'from lockstep import networks; print(len(networks.layers_of("resnet20")))'
expect_line "it has the networks" '^23$'
for name in pytorch keras; do
  run "venv/bin/lockstep-load-$name" --help
  expect_line "it has lockstep-load-$name" '--check'
done
finish
