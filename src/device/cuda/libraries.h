// Which CUDA, cuDNN and NCCL the program was compiled with and which it finds. Free of their
// headers.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// A library, with its versions as a person writes them.
struct LibraryVersion {
  std::string name, compiled, found;
  std::string path;  ///< empty for what is linked statically
};

struct CudaLibraries {
  LibraryVersion cuda, cudnn, nccl;
  std::string driver;  ///< the CUDA that the driver is for; empty where there is no driver
  /// cuDNN's own check of each part that it has loaded: those that are of another version.
  std::vector<std::string> odd_cudnn_parts;
  /// Where the parts of cuDNN came from.
  std::vector<std::string> cudnn_paths;
};

/// Loads the parts of cuDNN that a layer needs, but no driver.
CudaLibraries find_cuda_libraries();

/// Why these cannot serve, with the cure; empty where they can: cuDNN of one version and from one
/// folder, neither it nor NCCL older than what was compiled with.
std::string refusal(const CudaLibraries& libraries);

/// "CUDA 13.0 (driver 13.0), cuDNN 9.19.0 (compiled with 9.19.0, /usr/lib/libcudnn.so.9), ..."
std::string text_of(const CudaLibraries& libraries);

}  // namespace lockstep
