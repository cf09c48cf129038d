#include "src/device/cuda/libraries.h"

#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <dlfcn.h>
#include <link.h>
#include <nccl.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>

#include "src/base/check.h"

namespace lockstep {
namespace {

std::string cuda_version(int number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

/// Of cuDNN 9 (91900) and NCCL 2.9 and later (22809), which both count like this.
std::string version(int number) {
  return fmt::format("{}.{}.{}", number / 10000, number % 10000 / 100, number % 100);
}

/// The file that `function` is in.
template <class Function>
std::string path_of(Function* function) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(function), &info) == 0 || info.dli_fname == nullptr) return {};
  return info.dli_fname;
}

int add_cudnn_path(dl_phdr_info* info, std::size_t, void* paths) {
  const std::string path = info->dlpi_name;
  if (path.find("libcudnn") != std::string::npos) {
    static_cast<std::vector<std::string>*>(paths)->push_back(path);
  }
  return 0;
}

/// "9.19.0" as {9, 19, 0}.
std::vector<int> numbers(const std::string& text) {
  std::vector<int> result;
  for (const char* at = text.data(); at < text.data() + text.size();) {
    int number = 0;
    const auto [end, error] = std::from_chars(at, text.data() + text.size(), number);
    if (error != std::errc()) break;
    result.push_back(number);
    at = end + 1;
  }
  return result;
}

/// A minor version keeps what the earlier ones have; a major one need not.
bool serves(const LibraryVersion& library) {
  const std::vector<int> compiled = numbers(library.compiled), found = numbers(library.found);
  return !found.empty() && compiled.front() == found.front() && found >= compiled;
}

std::string text_of(const LibraryVersion& library) {
  return fmt::format("{} {} (compiled with {}{}{})", library.name, library.found, library.compiled,
                     library.path.empty() ? "" : ", ", library.path);
}

}  // namespace

CudaLibraries find_cuda_libraries() {
  CudaLibraries result;
  int runtime = 0, driver = 0, nccl = 0;
  cudaRuntimeGetVersion(&runtime);
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0)
    result.driver = cuda_version(driver);
  ncclGetVersion(&nccl);
  result.cuda = {"CUDA", cuda_version(CUDART_VERSION), cuda_version(runtime), ""};
  result.cudnn = {"cuDNN", version(CUDNN_VERSION), version(static_cast<int>(cudnnGetVersion())),
                  path_of(cudnnGetVersion)};
  result.nccl = {"NCCL", version(NCCL_VERSION_CODE), version(nccl), path_of(ncclGetVersion)};
  if (cudnnGraphVersionCheck() != CUDNN_STATUS_SUCCESS) result.odd_cudnn_parts = {"graph"};
  if (cudnnOpsVersionCheck() != CUDNN_STATUS_SUCCESS) result.odd_cudnn_parts.emplace_back("ops");
  if (cudnnCnnVersionCheck() != CUDNN_STATUS_SUCCESS) result.odd_cudnn_parts.emplace_back("cnn");
  dl_iterate_phdr(add_cudnn_path, &result.cudnn_paths);
  return result;
}

std::string refusal(const CudaLibraries& libraries) {
  if (!libraries.odd_cudnn_parts.empty()) {
    return fmt::format(
        "cuDNN {} finds its part {} in another version, in one of: {}; let LD_LIBRARY_PATH name "
        "one "
        "installation of cuDNN alone",
        libraries.cudnn.found, fmt::join(libraries.odd_cudnn_parts, ", "),
        fmt::join(libraries.cudnn_paths, ", "));
  }
  std::set<std::string> folders;
  for (const std::string& path : libraries.cudnn_paths) {
    std::error_code unknown;
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    const std::filesystem::path real = std::filesystem::canonical(folder, unknown);
    folders.insert(unknown ? folder.string() : real.string());
  }
  if (folders.size() > 1) {
    return fmt::format(
        "the parts of cuDNN come from several installations ({}): let LD_LIBRARY_PATH name one of "
        "them first",
        fmt::join(folders, ", "));
  }
  for (const LibraryVersion* library : {&libraries.cudnn, &libraries.nccl}) {
    if (serves(*library)) continue;
    return fmt::format(
        "this program was compiled with {} {} and finds {} ({}): put {} {} or a later {}.x first "
        "on LD_LIBRARY_PATH, or build it again",
        library->name, library->compiled, library->found, library->path, library->name,
        library->compiled, numbers(library->compiled).front());
  }
  return {};
}

std::string text_of(const CudaLibraries& libraries) {
  return fmt::format("CUDA {} (compiled with {}, driver for {}), {}, {}", libraries.cuda.found,
                     libraries.cuda.compiled, libraries.driver.empty() ? "none" : libraries.driver,
                     text_of(libraries.cudnn), text_of(libraries.nccl));
}

}  // namespace lockstep
