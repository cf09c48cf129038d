#!/usr/bin/env bash
# Every command of README.md and docs/getting-started.md runs as it is printed, except for fewer steps and ranks.
# The build, the tests, the download and the batch job are stand-ins; each has a test of its own.
# usage: commands.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
"$python" -c 'import matplotlib' 2>/dev/null || skip "python3-matplotlib is not installed"
root=$(cd "$here/../.." && pwd)
limit=240

# A clone whose build folder is the tested one.
clone=$folder/lockstep
mkdir -p "$clone/apps" "$folder/bin"
cp -r "$root/scripts" "$root/slurm" "$root/CMakePresets.json" "$clone/"
cp -r "$root/apps/recipes" "$clone/apps/"
ln -s "$(realpath "$build")" "$clone/build"
echo "localhost slots=2" >"$clone/hosts"
for name in cmake ctest sbatch; do
  printf '#!/bin/sh\necho "%s $*" >>"%s/called"\n' $name "$folder" >"$folder/bin/$name"
  chmod +x "$folder/bin/$name"
done

# The python that has the packages comes first.
ln -s "$(command -v "$python")" "$folder/bin/python3"

# An archive like CIFAR-10's, with images of one colour each.
"$python" - "$folder" <<'END'
import pathlib, sys
folder = pathlib.Path(sys.argv[1]) / "cifar-10-batches-bin"
folder.mkdir()
for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
    (folder / name).write_bytes(b"".join(bytes([i % 10]) + bytes([i % 256]) * 3072 for i in range(10000)))
(folder / "batches.meta.txt").write_text("\n".join(f"class{i}" for i in range(10)) + "\n")
END
tar --use-compress-program "gzip -1" -cf "$folder/archive" -C "$folder" cifar-10-batches-bin
LOCKSTEP_CIFAR10_SHA256=$(sha256sum "$folder/archive" | cut -d' ' -f1)
export LOCKSTEP_CIFAR10_SHA256 LOCKSTEP_CIFAR10_URL="file://$folder/archive"
unset LOCKSTEP_BUILD LOCKSTEP_RANKS

for page in README.md docs/getting-started.md; do
  run env PATH="$folder/bin:$PATH" "$python" "$here/commands.py" "$root/$page" "$clone"
  expect "the commands of $page work" [ $code = 0 ]
  tail -n 40 "$folder/out"
  rm -rf "$clone/data" "$clone/runs"
done
expect "the script submits the documented job" grep -q 'sbatch .*slurm/train_cifar.sbatch -- --data' "$folder/called"

# A page with a command that fails is found.
printf '# Page\n\n    scripts/train.sh --no-such-option\n' >"$folder/page.md"
run env PATH="$folder/bin:$PATH" "$python" "$here/commands.py" "$folder/page.md" "$clone"
expect "a wrong command fails the test" [ $code = 1 ]
printf '# Page\n\n    build/evaluate --help\n\n```text\nnever printed\n```\n' >"$folder/page.md"
run env PATH="$folder/bin:$PATH" "$python" "$here/commands.py" "$folder/page.md" "$clone"
expect "a wrong output fails the test" [ $code = 1 ]
finish
