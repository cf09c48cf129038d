# A clone for the tests that run the blocks of pages (sourced after lib.sh): `clone` is its folder, with the tested build, the
# scripts, and the files that pages name. $folder/bin has stand-ins for the build, the batch system and viewers.
# page FILE: runs the blocks of a page in it.
# shellcheck shell=bash disable=SC2154
need_h5py
"$python" -c 'import matplotlib' 2>/dev/null || skip "python3-matplotlib is not installed (scripts/install_dependencies.sh --tests)"
root=$(cd "$here/../.." && pwd)
# shellcheck disable=SC2034  # of run()
limit=400

# A clone whose build folder is the tested one.
clone=$folder/lockstep
mkdir -p "$clone/apps" "$clone/docs/images" "$clone/arrays" "$clone/holiday" "$folder/bin"
cp -r "$root/scripts" "$root/slurm" "$root/bench" "$root/CMakePresets.json" "$clone/"
cp -r "$root/apps/recipes" "$root/apps/networks" "$root/apps/example.toml" "$clone/apps/"
mkdir "$clone/build"
ln -s "$(realpath "$build")"/* "$clone/build/"
rm -f "$clone/build/"*.log "$clone/build/CMakeCache.txt"
sed "s|^\(CMAKE_HOME_DIRECTORY:INTERNAL=\).*|\1$clone|" "$build/CMakeCache.txt" >"$clone/build/CMakeCache.txt"
echo "localhost slots=2" >"$clone/hosts"
for name in cmake ctest sbatch module xdg-open man; do
  printf '#!/bin/sh\necho "%s $*" >>"%s/called"\ncat >/dev/null\n' $name "$folder" >"$folder/bin/$name"
  chmod +x "$folder/bin/$name"
done

# The python that has the packages comes first.
ln -s "$(command -v "$python")" "$folder/bin/python3"

# Data sets, own photos and own texts.
"$python" "$here/example_data.py" "$clone" 20 60000 10000
cp "$clone/photos/test/cat/0.bmp" "$clone/new.jpg"
cp "$clone/photos/test/cat/1.bmp" "$clone/holiday/"
{ echo text,label; for i in {1..60}; do echo "film $((i % 7)),$((i % 2))"; done; } >"$clone/reviews.csv"
cp "$clone/reviews.csv" "$clone/new.csv"

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

page() { run env PATH="$folder/bin:$build:$PATH" "$python" "$here/commands.py" "$1" "$clone"; }
page_works() {  # NAME: relative to the repository
  page "$root/$1"
  expect "the blocks of $1 work" [ $code = 0 ]
  tail -n 40 "$folder/out"
}
