# cuDNN 9: CUDNN_FOUND, CUDNN_VERSION and the target CUDNN::cudnn. Looked for in -DCUDNN_ROOT or $CUDNN_ROOT, in the
# toolkit, and among the packages of the Python in PATH: a wheel (nvidia-cudnn-cu13) holds libcudnn.so.9 and no libcudnn.so.
include(${CMAKE_CURRENT_LIST_DIR}/python_packages.cmake)
python_packages(CUDNN_PACKAGES nvidia/cudnn nvidia/cu13)
find_path(CUDNN_INCLUDE_DIR cudnn_version.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${CUDNN_PACKAGES} PATH_SUFFIXES include)
find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR} ${CUDNN_PACKAGES}
             PATH_SUFFIXES lib64 lib)
if(CUDNN_INCLUDE_DIR)
  header_version(CUDNN_VERSION ${CUDNN_INCLUDE_DIR}/cudnn_version.h CUDNN_MAJOR CUDNN_MINOR CUDNN_PATCHLEVEL)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CUDNN REQUIRED_VARS CUDNN_LIBRARY CUDNN_INCLUDE_DIR VERSION_VAR CUDNN_VERSION)
if(CUDNN_FOUND AND NOT TARGET CUDNN::cudnn)
  add_library(CUDNN::cudnn SHARED IMPORTED)
  set_target_properties(CUDNN::cudnn PROPERTIES IMPORTED_LOCATION ${CUDNN_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${CUDNN_INCLUDE_DIR})
endif()
mark_as_advanced(CUDNN_INCLUDE_DIR CUDNN_LIBRARY)
