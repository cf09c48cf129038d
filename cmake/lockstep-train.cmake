# The component train of the installed package, and the libraries that only it needs.
foreach(package ZLIB PNG JPEG Protobuf)
  find_dependency(${package})
endforeach()
if(lockstep_WITH_CUDA)
  find_dependency(CUDNN)
endif()
include(${CMAKE_CURRENT_LIST_DIR}/lockstep-train-targets.cmake)
set(lockstep_train_FOUND TRUE)
