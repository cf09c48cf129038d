#!/usr/bin/env bash
# LOCKSTEP_CUDA=ON names each library of the toolkit that is missing, instead of CMake's "No target CUDA::cublasLt".
# usage: missing_library.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/../apps/lib.sh
. "$(dirname "$0")/../apps/lib.sh"
cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
for library in cublasLt:cuBLASLt nvrtc:NVRTC; do
  run cmake -S "$here/../.." -B "$folder/${library%:*}" -DLOCKSTEP_CUDA=ON -DLOCKSTEP_TESTS=OFF -DLOCKSTEP_BENCH=OFF \
    -DCMAKE_CUDA_ARCHITECTURES=90a "-DCMAKE_CUDA_COMPILER=$(cached CMAKE_CUDA_COMPILER)" \
    "-DCUDNN_FRONTEND_INCLUDE_DIR=$(cached CUDNN_FRONTEND_INCLUDE_DIR)" "-DCUDA_${library%:*}_LIBRARY="
  expect "without ${library#*:} the build is refused" test $code != 0
  expect "which names it" grep -qE "${library#*:}" "$folder/raw"
done
finish
