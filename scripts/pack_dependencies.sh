#!/usr/bin/env bash
# Packs the libraries that the build needs, for a machine with a GPU but without a network. Packages are downloaded and
# unpacked, but not installed.
set -euo pipefail

usage() {
  cat <<'HELP'
usage: scripts/pack_dependencies.sh FOLDER

Packs the libraries of scripts/install_dependencies.sh --tests and the headers of cuDNN's front end. Writes
FOLDER/pack.tar.xz (20 MB) and FOLDER/env.sh, which unpacks it and sets the paths of compiler, linker and CMake. It needs
apt-get (Debian 12 or newer, Ubuntu 24.04 or newer) and a network.

Copy FOLDER to the other machine. It needs the same processor architecture, a glibc at least as new, a C++ compiler, cmake,
ninja, and CUDA with cuDNN and NCCL. There:
  tests/gpu.sh FOLDER          # builds, tests and measures
  . FOLDER/env.sh              # in bash, to configure and build by hand
HELP
}

case ${1-} in -h | --help) usage; exit 0 ;; esac
(($# == 1)) || { usage >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=$(realpath -m "$1")

die() {
  echo "pack_dependencies.sh: $1" >&2
  exit 1
}
command -v apt-get >/dev/null || die "there is no apt-get. Run this on Debian or Ubuntu."
[[ ! -e $out ]] || die "$out exists. Name a new folder."
work=$(mktemp -d -t lockstep-pack.XXXXXX)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/debs/partial" || die "cannot create $work. Set TMPDIR to another folder."

# Prints the packages that apt-get would install on an empty system, as name=version.
closure() {
  apt-get -o Dir::State::status=/dev/null -o Dir::Cache::archives="$work/debs" -o APT::Install-Recommends=0 -qq -s \
    install "$@" | sed -nE 's/^Inst ([^ ]+) \(([^ ]+) .*/\1=\2/p' | sort
}

# Tools are not packed, and neither are the libraries of the compiler.
mapfile -t wanted < <("$here/install_dependencies.sh" --tests --list |
  grep -vxE 'build-essential|cmake|ninja-build|git|pkg-config|curl|ca-certificates|python3-.*')
mapfile -t packages < <(comm -13 <(closure libgomp1 libstdc++6) <(closure "${wanted[@]}") |
  grep -vE '^(gcc|g\+\+|cpp|gfortran|binutils|perl|libperl|libgcc|libgfortran|libc6|libicu|libjs|linux-libc|openssh)[-.0-9a-z]*=')
((${#packages[@]} > 0)) || die "apt-get does not find all of ${wanted[*]}. Run apt-get update."
(cd "$work/debs" && apt-get download -qq "${packages[@]}" 2>/dev/null) || die "apt-get download failed. Check the network."

# Packages with the source of a wanted one are packed whole. Of all others only the libraries that these need are packed.
field() { dpkg-deb -f "$1" "$2"; }
source_of() { local source; source=$(field "$1" Source); echo "${source:-$(field "$1" Package)}" | cut -d' ' -f1; }
sources=$(for file in "$work"/debs/*.deb; do
  if printf '%s\n' "${wanted[@]}" | grep -qxF "$(field "$file" Package)"; then source_of "$file"; fi
done; echo pmix) # Open MPI's launcher; both must fit together
for file in "$work"/debs/*.deb; do
  if grep -qxF "$(source_of "$file")" <<<"$sources"; then dpkg-deb -x "$file" "$work/own"; else dpkg-deb -x "$file" "$work/rest"; fi
done
for tree in "$work/own" "$work/rest"; do  # newer systems have only usr/lib
  if [[ -d $tree/lib ]]; then cp -a "$tree/lib/." "$tree/usr/lib/" && rm -rf "$tree/lib"; fi
done

cd "$work/own"
libraries=$(dirname "$(find usr/lib -name 'libdnnl.so')")
cp -a usr/include/*-linux-gnu/. usr/include/  # compilers of other systems do not search there
rm -rf usr/share/{doc,man,lintian,bug,bash-completion} usr/src var
find . \( -name '*.mod' -o -name '*fortran*' -o -name '*mpifh*' -o -name '*usempi*' -o -name '*oshmem*' -o -name '*_java*' -o -name 'mpijava*' -o -name '*_cpp*.so*' \) -prune \
  -exec rm -rf {} +
find . -name '*.a' ! -name 'libg[tm]*' ! -name 'libbenchmark*' -delete
find usr/bin ! -type d ! -name 'mpi*' ! -name 'or*' ! -name 'opal*' ! -name 'ompi*' ! -name 'prte*' ! -name 'protoc*' -delete
# Support for the networks and batch systems of clusters, which need libraries of their own.
find . -regextype egrep -regex '.*/(lib)?mca_[a-z]+_(ucx|ofi|verbs|psm2?|usnic|portals4|openib|gridengine|lsf|tm|uct)\.so.*' -delete
find . -regextype egrep -regex '.*/mca_(atomic|memheap|scoll|spml|sshmem)_.*' -delete  # of OpenSHMEM
# The system's alternatives, which dpkg would set.
for name in mpirun mpiexec mpicc mpicxx; do
  if [[ ! -e usr/bin/$name ]]; then ln -s "$(basename "$(ls usr/bin/$name.openmpi usr/bin/orterun 2>/dev/null | head -n 1)")" usr/bin/$name; fi
done
find . -type l -lname '/*' | while read -r link; do  # absolute links
  target=$(readlink "$link")
  target=${target/#\/lib\//\/usr\/lib\/}
  ln -sfnr ".$target" "$link"
done
find . -xtype l ! -name 'lib*.so' -delete  # links to what was left out

# Adds libraries of the other packages until no more are needed.
file_of() { find "$1" -name "$2" -path '*/lib/*' ! -path '*/openmpi/lib/openmpi*' | head -n 1; }
mapfile -t queue < <(find usr -type f \( -name '*.so*' -o -path 'usr/bin/*' \))
while ((${#queue[@]} > 0)); do
  mapfile -t names < <(readelf -d "${queue[@]}" 2>/dev/null | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p' | sort -u)
  queue=()
  for name in "${names[@]}"; do
    if [[ -n $(file_of . "$name") ]]; then continue; fi
    found=$(file_of "$work/rest" "$name")
    if [[ -z $found ]]; then
      [[ $name =~ ^(lib(c|m|dl|rt|pthread|util|resolv|gcc_s|stdc\+\+|gomp|quadmath)|ld-linux.*)\.so ]] || die "no package has $name. Run apt-get update."
      continue
    fi
    cp -L "$found" "$libraries/$name"
    queue+=("$libraries/$name")
    echo "$name" >>"$work/borrowed"
  done
done
sort -u "$work/borrowed" >borrowed.txt
printf '%s\n' "${packages[@]}" >packages.txt
getconf GNU_LIBC_VERSION | cut -d' ' -f2 >glibc.txt
"$here/get_cudnn_frontend.sh" "$work/own/cudnn_frontend"
dangling=$(find . -xtype l)
[[ -z $dangling ]] || die "these links have no target: ${dangling//$'\n'/, }. Report this with the name of your system."

mkdir -p "$out" || die "cannot create $out. Name another folder."
tar -C "$work/own" -cf - . | xz -T0 >"$out/pack.tar.xz"
cp "$here/pack_environment.sh" "$out/env.sh"
echo "pack_dependencies.sh: $out has $(($(stat -c %s "$out/pack.tar.xz") / 1000000)) MB, unpacked $(du -sm . | cut -f1) MiB"
