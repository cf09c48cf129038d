# The headers of cuDNN's front end: CUDNNFrontend_FOUND and CUDNN_FRONTEND_INCLUDE_DIR. Looked for in
# -DCUDNN_FRONTEND_ROOT or $CUDNN_FRONTEND_ROOT, where scripts/get_cudnn_frontend.sh puts them, and among the packages of
# the Python in PATH: the wheel nvidia-cudnn-frontend puts them into the environment's own include/ or beside its packages.
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
