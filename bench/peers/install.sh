#!/usr/bin/env bash
# Installs the peers of compare.sh in virtual environments, one for each set of packages that fit together.
set -euo pipefail
# shellcheck source=SCRIPTDIR/../../scripts/common.sh
. "$(dirname "$0")/../../scripts/common.sh"
folder=${LOCKSTEP_PEERS:-$root/build-peers}
index=https://download.pytorch.org/whl/cpu
declare -A packages=(
  [pytorch]='torch==2.15.0 torchvision==0.29.2 spdl==0.8.0 pillow==13.0.0 h5py==3.14.0'
  [ipex]='torch==2.8.0 torchvision==0.23.0 intel-extension-for-pytorch==2.8.0 h5py==3.14.0'
  [keras]='keras==3.15.1 tensorflow-cpu==2.21.0 jax==0.10.2 h5py==3.14.0')
names=(pytorch ipex keras)

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  echo "usage: bench/peers/install.sh [ENVIRONMENT...]"
  echo "Makes virtual environments in $folder (LOCKSTEP_PEERS):"
  for name in "${names[@]}"; do printf '  %-8s %s\n' "$name" "${packages[$name]}"; done
  exit
fi
if [[ $# -gt 0 ]]; then names=("$@"); fi
for name in "${names[@]}"; do
  [[ -n ${packages[$name]:-} ]] || fail "unknown environment $name. Use ${!packages[*]}." 2
done

# The wheels of PyPI contain CUDA libraries of 5 GB, and they work too.
more=(--extra-index-url "$index")
if ! curl -sfI --max-time 20 "$index/torch/" >/dev/null; then
  echo "$me: cannot reach $index. PyTorch comes from PyPI, with CUDA libraries." >&2
  more=()
fi
failed=()
for name in "${names[@]}"; do
  echo "$me: installing ${packages[$name]} in $folder/$name" >&2
  # shellcheck disable=SC2086  # a list of packages
  python3 -m venv "$folder/$name" &&
    "$folder/$name/bin/pip" install --quiet --disable-pip-version-check "${more[@]}" ${packages[$name]} || failed+=("$name")
done
[[ ${#failed[@]} == 0 ]] || fail "cannot install ${failed[*]}. See the errors above; the other environments work."
