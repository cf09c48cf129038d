# Finds the headers of cuDNN's front end. Sets CUDNNFrontend_FOUND and CUDNN_FRONTEND_INCLUDE_DIR. It searches
# -DCUDNN_FRONTEND_ROOT, $CUDNN_FRONTEND_ROOT, the cache folder of scripts/get_cudnn_frontend.sh, and the packages of the
# Python in PATH. The wheel nvidia-cudnn-frontend installs them into the environment's include/ or beside its packages.
include(${CMAKE_CURRENT_LIST_DIR}/python_packages.cmake)
python_packages(CUDNN_FRONTEND_PACKAGES include)
if(DEFINED ENV{XDG_CACHE_HOME})
  set(cache $ENV{XDG_CACHE_HOME})
else()
  set(cache $ENV{HOME}/.cache)
endif()
file(GLOB fetched ${cache}/lockstep/cudnn_frontend-*)
find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h
          HINTS ${CUDNN_FRONTEND_ROOT} ENV CUDNN_FRONTEND_ROOT ${fetched} ${CUDNN_FRONTEND_PACKAGES} PATH_SUFFIXES include)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CUDNNFrontend REQUIRED_VARS CUDNN_FRONTEND_INCLUDE_DIR)
mark_as_advanced(CUDNN_FRONTEND_INCLUDE_DIR)
