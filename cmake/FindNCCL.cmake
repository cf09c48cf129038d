# NCCL 2: NCCL_FOUND, NCCL_VERSION and the target NCCL::nccl. Looked for as cuDNN is (FindCUDNN.cmake),
# in the wheel nvidia-nccl-cu13 too.
include(${CMAKE_CURRENT_LIST_DIR}/python_packages.cmake)
python_packages(NCCL_PACKAGES nvidia/nccl)
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${NCCL_PACKAGES} PATH_SUFFIXES include)
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${CUDAToolkit_LIBRARY_DIR} ${NCCL_PACKAGES} PATH_SUFFIXES lib64 lib)
if(NCCL_INCLUDE_DIR)
  header_version(NCCL_VERSION ${NCCL_INCLUDE_DIR}/nccl.h NCCL_MAJOR NCCL_MINOR NCCL_PATCH)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_LIBRARY NCCL_INCLUDE_DIR VERSION_VAR NCCL_VERSION)
if(NCCL_FOUND AND NOT TARGET NCCL::nccl)
  add_library(NCCL::nccl SHARED IMPORTED)
  set_target_properties(NCCL::nccl PROPERTIES IMPORTED_LOCATION ${NCCL_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${NCCL_INCLUDE_DIR})
endif()
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)
