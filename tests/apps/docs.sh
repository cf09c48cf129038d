#!/usr/bin/env bash
# The documentation keeps its limits: length, links, sentences, and names of options that exist.
# usage: docs.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip "python3 is not installed"
root=$(cd "$here/../.." && pwd)

for program in train_cifar train_reuters train_images train_texts evaluate classify export_model pack_images compare_runs report_runs verify_run lockstep_run bench_step bench_allreduce cost_model; do
  [[ ! -x $build/$program ]] || "$build/$program" --help-all
done >"$folder/help" 2>/dev/null
expect "the options are known" grep -q -- --checkpoint-every "$folder/help"
expect "the documentation keeps its limits" python3 "$here/docs.py" "$root" "$folder/help"

# CMake, the programs and the changelog name the same version.
version=$(sed -n 's/^project(lockstep VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
expect "the programs print version $version" grep -q "^train_cifar $version" <("$build/train_cifar" --version)
expect "the changelog begins with $version" grep -q "$version" <(grep -m 1 '^## ' "$root/CHANGELOG.md")

# Without mkdocs or doxygen their part is left out; .ci/run installs both.
if command -v mkdocs >/dev/null; then
  expect "mkdocs makes the site" mkdocs build --strict --quiet --config-file "$root/mkdocs.yml" --site-dir "$folder/site"
fi

# The check itself can fail.
cp -r "$root/docs" "$root/README.md" "$root/CONTRIBUTING.md" "$folder/"
mkdir -p "$folder/bad" && cp -r "$root/docs" "$root/README.md" "$root/CONTRIBUTING.md" "$folder/bad/"
echo 'See [nothing](nowhere.md) and [no heading](glossary.md#no-such-heading). Pass `--no-such-option`. See `src/no-such-path.h`. It is the usual one.' >>"$folder/bad/docs/glossary.md"
printf '\n| message contains | reason | fix |\n|---|---|---|\n| `no such message` | none | none |\n' >>"$folder/bad/docs/troubleshooting.md"
sed 's/^  --lr NUMBER .*/  --lr NUMBER/' "$folder/help" >"$folder/bad/help"
python3 "$here/docs.py" "$folder/bad" "$folder/bad/help" "$root" >"$folder/found"
expect "the check finds an option without help" grep -q -- '--lr has no text' "$folder/found"
for word in nowhere.md no-such-heading no-such-option no-such-path usual; do
  expect "the check finds $word" grep -q "glossary.md.*$word" "$folder/found"
done
expect "the check finds a message that no program prints" grep -q "troubleshooting.md.*'no such message'" "$folder/found"
finish
