#include "src/device/cuda/libraries.h"

#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <dlfcn.h>
#include <nccl.h>

#include "src/base/check.h"

namespace lockstep {
namespace {

std::string cuda_version(int number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

/// cuDNN 9, cuBLAS 13, and NCCL 2.9 and later number their versions alike.
std::string version(int number) {
  return fmt::format("{}.{}.{}", number / 10000, number % 10000 / 100, number % 100);
}

/// The library file that contains `function`.
template <class Function>
std::string path_of(Function* function) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(function), &info) == 0 || info.dli_fname == nullptr) return {};
  return info.dli_fname;
}

/// A later minor version is compatible, another major version need not be.
bool serves(const LibraryVersion& library) {
  return library.found >= library.compiled && library.found / 10000 == library.compiled / 10000;
}

std::string text_of(const LibraryVersion& library) {
  return fmt::format("{} (compiled with {}, {})", library.text(), version(library.compiled),
                     library.path);
}

}  // namespace

CudaLibraries find_cuda_libraries() {
  CudaLibraries result;
  result.cuda = {"CUDA", CUDART_VERSION, 0, ""};
  cudaRuntimeGetVersion(&result.cuda.found);
  cudaDriverGetVersion(&result.driver);
  result.cudnn = {"cuDNN", CUDNN_VERSION, static_cast<int>(cudnnGetVersion()),
                  path_of(cudnnGetVersion)};
  result.cublaslt = cuda::find_cublaslt();
  result.nccl = {"NCCL", NCCL_VERSION_CODE, 0, path_of(ncclGetVersion)};
  ncclGetVersion(&result.nccl.found);
  // cuDNN loads its parts by name when they are first used. Another installation in the path may
  // provide some of them.
  if (cudnnGraphVersionCheck() != CUDNN_STATUS_SUCCESS) result.odd_cudnn_parts = {"graph"};
  if (cudnnOpsVersionCheck() != CUDNN_STATUS_SUCCESS) result.odd_cudnn_parts.emplace_back("ops");
  if (cudnnCnnVersionCheck() != CUDNN_STATUS_SUCCESS) result.odd_cudnn_parts.emplace_back("cnn");
  return result;
}

std::string refusal(const CudaLibraries& libraries) {
  if (!libraries.odd_cudnn_parts.empty()) {
    return fmt::format(
        "{} finds another version of its parts {}; let LD_LIBRARY_PATH name only one "
        "installation of cuDNN",
        libraries.cudnn.text(), fmt::join(libraries.odd_cudnn_parts, ", "));
  }
  for (const LibraryVersion* library : {&libraries.cudnn, &libraries.cublaslt, &libraries.nccl}) {
    if (serves(*library)) continue;
    return fmt::format(
        "this program was compiled with {0} {1}, but finds {2} ({3}); let LD_LIBRARY_PATH begin "
        "with "
        "{0} {1} or a later {4}.x, or build again",
        library->name, version(library->compiled), version(library->found), library->path,
        library->compiled / 10000);
  }
  return {};
}

// NVIDIA's notes on patches of cuBLAS: algorithm 66 of 12.8 to 13.1.0.3 may give wrong results when
// another kernel uses Tensor Memory, which GPUs have from compute capability 10 on.
std::string advice(const CudaLibraries& libraries, int major) {
  const int found = libraries.cublaslt.found;
  if (major < 10 || major > 11 || found < 120800 || found > 130100) return {};
  return libraries.cublaslt.text() +
         " may give wrong results on this GPU; install CUDA 13.0.3 or later";
}

std::string absence(int error, bool driver) {
  const auto result = static_cast<cudaError_t>(error);
  const char* const reason = cudaGetErrorString(result);
  if (result == cudaErrorNoDevice || !driver) return fmt::format("no CUDA device ({})", reason);
  return fmt::format("the CUDA device does not work: {}", reason);
}

std::string LibraryVersion::text() const { return fmt::format("{} {}", name, version(found)); }

std::string CudaLibraries::text() const {
  return fmt::format("CUDA {} (compiled with {}, driver for {}), {}, {}, {}",
                     cuda_version(cuda.found), cuda_version(cuda.compiled),
                     driver == 0 ? "none" : cuda_version(driver), text_of(cudnn), text_of(cublaslt),
                     text_of(nccl));
}

}  // namespace lockstep
