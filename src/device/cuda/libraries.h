// Versions of CUDA and its libraries: compiled with and found at run time. Free of their headers.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

struct LibraryVersion {
  std::string name;
  int compiled = 0, found = 0;  ///< 91900: cuDNN 9.19.0; 22809: NCCL 2.28.9; 13000: CUDA 13.0
  std::string path;             ///< empty: linked statically

  /// "cuDNN 9.19.0": the one that was found.
  std::string text() const;
};

struct CudaLibraries {
  LibraryVersion cuda, cudnn, cublaslt, nccl;
  int driver = 0;  ///< the CUDA version of the driver; 0: no driver
  /// Parts of cuDNN that have another version, by cuDNN's own check.
  std::vector<std::string> odd_cudnn_parts;

  /// "CUDA 13.0 (driver 13.0), cuDNN 9.19.0 (compiled with 9.19.0, /usr/lib/libcudnn.so.9), ..."
  std::string text() const;
};

/// Loads cuBLASLt and the parts of cuDNN that a layer needs, but no driver. Throws Error if
/// cuBLASLt cannot be loaded.
CudaLibraries find_cuda_libraries();

/// Why these libraries cannot be used, with the fix. Empty: all parts of cuDNN have one version,
/// and no library is older than the version that Lockstep was compiled with.
std::string refusal(const CudaLibraries& libraries);

/// A change that users should make: a library has a known bug on GPUs of compute capability
/// `major`. Empty: none is known.
std::string advice(const CudaLibraries& libraries, int major);

/// The reason of `error`, a cudaError_t, why there is no GPU to use: "no CUDA device (no
/// CUDA-capable device is detected)", or "the CUDA device does not work: ..." if the machine should
/// have a GPU. `driver`: whether the machine has a driver of GPUs.
std::string absence(int error, bool driver);

namespace cuda {
/// cuBLASLt, which is loaded if necessary.
LibraryVersion find_cublaslt();
}  // namespace cuda

}  // namespace lockstep
