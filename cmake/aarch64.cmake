# Compiles for 64-bit ARM on another machine, with Debian's cross compiler:
#   cmake -B build-arm -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake -DCMAKE_SYSROOT=FOLDER -DLOCKSTEP_CUDA=OFF
# FOLDER is the root of a Debian or Ubuntu for arm64 with the packages of scripts/install_dependencies.sh (tests/arm.sh makes
# one). ctest runs the programs in qemu.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES CMAKE_SYSROOT)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static;-L;${CMAKE_SYSROOT})
set(LOCKSTEP_MARCH armv8-a CACHE STRING "Processor to compile for (-march=...)")
# mpicxx of that system does not run here. mpicxx and pkg-config of this one name other libraries.
set(CMAKE_DISABLE_FIND_PACKAGE_PkgConfig ON)
set(MPI_SKIP_COMPILER_WRAPPER ON)
set(MPI_CXX_SKIP_MPICXX ON)
set(MPI_CXX_HEADER_DIR ${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu/openmpi/include)
set(MPI_CXX_LIB_NAMES mpi)
set(MPI_mpi_LIBRARY ${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu/openmpi/lib/libmpi.so)
