# cuDNN 9: CUDNN_FOUND, CUDNN_VERSION and the target CUDNN::cudnn.
include(${CMAKE_CURRENT_LIST_DIR}/nvidia_library.cmake)
find_nvidia_library(CUDNN cudnn 9 cudnn_version.h MACROS CUDNN_MAJOR CUDNN_MINOR CUDNN_PATCHLEVEL
                    WHEELS nvidia/cudnn nvidia/cu13)
