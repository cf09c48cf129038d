// Versions of CUDA, cuDNN and NCCL: compiled with and found at run time. Free of their headers.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

struct LibraryVersion {
  std::string name;
  int compiled = 0, found = 0;  ///< 91900: cuDNN 9.19.0; 22809: NCCL 2.28.9; 13000: CUDA 13.0
  std::string path;             ///< empty: linked statically
};

struct CudaLibraries {
  LibraryVersion cuda, cudnn, nccl;
  int driver = 0;  ///< the CUDA version of the driver; 0: no driver
  /// Parts of cuDNN that have another version, by cuDNN's own check.
  std::vector<std::string> odd_cudnn_parts;

  /// "CUDA 13.0 (driver 13.0), cuDNN 9.19.0 (compiled with 9.19.0, /usr/lib/libcudnn.so.9), ..."
  std::string text() const;
};

/// Loads the parts of cuDNN that a layer needs, but no driver.
CudaLibraries find_cuda_libraries();

/// Why these libraries cannot be used, with the fix. Empty: all parts of cuDNN have one version,
/// and neither cuDNN nor NCCL is older than the version that Lockstep was compiled with.
std::string refusal(const CudaLibraries& libraries);

}  // namespace lockstep
