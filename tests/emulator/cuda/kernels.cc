#include "tests/emulator/cuda/kernels.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <unordered_map>

#include "tests/emulator/cuda/capture.h"
#include "tests/emulator/cuda/races.h"
#include "tests/emulator/cuda/report.h"
#include "tests/emulator/cuda/warp.h"
#include "tests/emulator/emulator.h"

namespace emulator {
namespace {

constexpr std::uint32_t kLanes = 32, kMostThreads = 1024;

struct Tables {
  std::map<std::string, Kernel> translated;                     ///< by mangled name
  std::unordered_map<const void*, std::string> host_functions;  ///< their mangled names
  std::unordered_map<const void*, std::string> short_names;
};
Tables& tables() {
  static auto* const all = new Tables;
  return *all;
}

void remove_all(std::string& text, const std::string& part) {
  for (std::size_t at; (at = text.find(part)) != std::string::npos;) text.erase(at, part.size());
}

/// "each_kernel<Update<float>>" of "void lockstep::each_kernel<lockstep::(anonymous
/// namespace)::Update<float> >(long, ...)", which is demangled.
std::string short_name(const char* mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), std::free);
  std::string name = text != nullptr ? text.get() : mangled;
  for (const char* part : {"lockstep::", "(anonymous namespace)::"}) remove_all(name, part);
  if (name.starts_with("void ")) name.erase(0, 5);
  // The parameters begin at the bracket that is outside of template arguments.
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (name[i] == '(' && depth == 0) name.resize(i);
  }
  return name;
}

/// A launch's numbers and its copy of the arguments.
struct Launch {
  void (*run)(const std::uint8_t*);
  std::uint32_t grid, block;
  std::vector<std::uint8_t> parameters;
};

bool run_launch(const Launch& launch) {
  if (is_to_fail("kernel")) {
    set_sticky_error(cudaErrorIllegalAddress);
    return true;
  }
  block_dim.x = launch.block;
  grid_dim.x = launch.grid;
  const auto* const begin = reinterpret_cast<const char*>(launch.parameters.data());
  running.stacks = stacks_of_threads();
  running.parameters = {begin, begin + launch.parameters.size()};
  const std::uint32_t per_block = (launch.block + kLanes - 1) / kLanes;
  std::vector<std::uint32_t> order(std::size_t{launch.grid} * per_block);
  std::iota(order.begin(), order.end(), 0u);
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[random_below(static_cast<std::uint32_t>(i))]);
  for (const std::uint32_t warp : order) {
    block_idx.x = warp / per_block;
    const std::uint32_t first = warp % per_block * kLanes;
    // From 1, and below the two highest bits, which races.cc uses.
    const std::uint32_t number = (warp * kLanes & 0x3fffffff) + 1;
    run_warp(launch.run, launch.parameters.data(), first, number,
             std::min(kLanes, launch.block - first));
  }
  return true;
}

/// A launch that no GPU accepts, or that this emulator cannot run.
bool is_wrong(dim3 grid, dim3 block, std::size_t shared_bytes, const std::string& name) {
  const auto wrong = [&](const char* reason) {
    report(std::string(reason) + " in a launch of [" + name + "]",
           std::to_string(grid.x) + " blocks of " + std::to_string(block.x) + " threads");
    return true;
  };
  if (grid.x == 0 || block.x == 0) return wrong("nothing to do");
  if (block.x > kMostThreads) return wrong("too many threads in a block");
  if (grid.x > std::numeric_limits<std::int32_t>::max()) return wrong("too many blocks");
  if (grid.y * grid.z * block.y * block.z != 1) return wrong("more than one dimension");
  return shared_bytes > 0 && wrong("shared memory");
}

}  // namespace

bool is_kernel(const void* function) { return tables().host_functions.contains(function); }

cudaError_t launch_kernel(const void* function, dim3 grid, dim3 block, void** arguments,
                          std::size_t shared_bytes, cudaStream_t handle) {
  const auto mangled = tables().host_functions.find(function);
  if (mangled == tables().host_functions.end()) return cudaErrorInvalidDeviceFunction;
  const auto found = tables().translated.find(mangled->second);
  if (found == tables().translated.end())
    stop("no translation of the kernel " + mangled->second + ". Translate its object file.");
  const Kernel& kernel = found->second;
  std::string& name = tables().short_names[function];
  if (name.empty()) name = short_name(kernel.name);
  if (is_wrong(grid, block, shared_bytes, name)) return cudaErrorInvalidConfiguration;
  auto launch = std::make_shared<Launch>(Launch{kernel.run, grid.x, block.x, {}});
  launch->parameters.resize(kernel.bytes);
  for (std::uint32_t i = 0; i < kernel.count; ++i) {
    const auto [offset, bytes] = kernel.layout[i];
    std::memcpy(launch->parameters.data() + offset, arguments[i], bytes);
  }
  Work work{stored(name), {}, [launch] { return run_launch(*launch); }};
  add_work(std::make_shared<const Work>(std::move(work)), stream_of(handle));
  return cudaSuccess;
}

KnownKernel::KnownKernel(const Kernel& kernel) { tables().translated[kernel.name] = kernel; }

void stop_at_unknown(const char* kernel, const char* instruction) {
  // Mangled, because the stack of a warp's thread is too small for the demangler.
  stop(std::string("the kernel ") + kernel + " contains the instruction \"" + instruction +
       "\". Add it to ptx.py.");
}

}  // namespace emulator

// --- what nvcc's host code calls (crt/host_runtime.h) -------------------------------------------

namespace {
struct Configuration {
  dim3 grid, block;
  std::size_t shared_bytes;
  cudaStream_t stream;
};
thread_local Configuration configuration;
}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 0; }

void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
  emulator::tables().host_functions[host] = name;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes,
                                     cudaStream_t stream) {
  configuration = {grid, block, shared_bytes, stream};
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared_bytes,
                                       void* stream) {
  *grid = configuration.grid;
  *block = configuration.block;
  *shared_bytes = configuration.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = configuration.stream;
  return cudaSuccess;
}
}
