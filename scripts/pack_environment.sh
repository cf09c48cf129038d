# The environment of a pack of scripts/pack_dependencies.sh (sourced in bash, as env.sh in the pack's folder). Unpacks it at
# first. The libraries in borrowed.txt are used only if this machine has no library of the same name.
# shellcheck shell=bash
_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
_pack=$_folder/unpacked
if [[ ! -e $_pack/glibc.txt || $_folder/pack.tar.xz -nt $_pack/glibc.txt ]]; then
  rm -rf "$_pack"
  mkdir -p "$_pack" && (cd "$_pack" && cmake -E tar xf ../pack.tar.xz && touch glibc.txt) || {
    echo "env.sh: cannot unpack $_folder/pack.tar.xz. Check for cmake, the rights and the free disk space." >&2
    return 1
  }
fi
_libraries=$(dirname "$(find "$_pack/usr/lib" -name libdnnl.so)")
_have=$(getconf GNU_LIBC_VERSION 2>/dev/null | cut -d' ' -f2)
if [[ $(printf '%s\n' "$(cat "$_pack/glibc.txt")" "${_have:-0}" | sort -V | head -n 1) != "$(cat "$_pack/glibc.txt")" ]]; then
  echo "env.sh: this machine has glibc ${_have:-of another kind}, but the pack needs $(cat "$_pack/glibc.txt") or newer. Make the pack on an older system." >&2
  return 1
fi
_known=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null || true)
rm -rf "$_pack/run"
mkdir -p "$_pack/run" || return 1
for _file in "$_libraries"/*.so*; do
  _name=${_file##*/}
  if ! grep -qxF "$_name" "$_pack/borrowed.txt" || [[ $_known != *$'\t'"$_name "* ]]; then ln -s "$_file" "$_pack/run/$_name"; fi
done
export PATH=$_pack/usr/bin:$PATH LD_LIBRARY_PATH=$_pack/run${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export CMAKE_PREFIX_PATH=$_pack/usr:$_libraries${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}
export CMAKE_LIBRARY_PATH=$_libraries:$_libraries/hdf5/serial CMAKE_INCLUDE_PATH=$_pack/usr/include/hdf5/serial
export CUDNN_FRONTEND_ROOT=$_pack/cudnn_frontend
# Open MPI finds its folders through these.
export OPAL_PREFIX=$_pack/usr OPAL_LIBDIR=$_libraries/openmpi/lib OPAL_PKGLIBDIR=$_libraries/openmpi/lib/openmpi3
export OPAL_INCLUDEDIR=$_libraries/openmpi/include OPAL_PKGINCLUDEDIR=$_libraries/openmpi/include/openmpi
export OPAL_DATADIR=$_pack/usr/share OPAL_PKGDATADIR=$_pack/usr/share/openmpi OPAL_SYSCONFDIR=$_pack/etc/openmpi
export OPAL_BINDIR=$_pack/usr/bin PMIX_INSTALL_PREFIX=$_libraries/pmix2 OMPI_MCA_plm_rsh_agent=/bin/false
export PMIX_MCA_pcompress_base_silence_warning=1
unset _folder _pack _libraries _have _known _file _name
