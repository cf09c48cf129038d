# NCCL 2: NCCL_FOUND, NCCL_VERSION and the target NCCL::nccl.
include(${CMAKE_CURRENT_LIST_DIR}/nvidia_library.cmake)
find_nvidia_library(NCCL nccl 2 nccl.h MACROS NCCL_MAJOR NCCL_MINOR NCCL_PATCH WHEELS nvidia/nccl)
