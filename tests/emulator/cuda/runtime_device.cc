// The functions of the CUDA runtime for devices, memory and copies.
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>

#include "tests/emulator/cuda/call.h"
#include "tests/emulator/cuda/memory.h"
#include "tests/emulator/cuda/report.h"

namespace emulator {
namespace {

thread_local int device_of_thread = 0;

bool exists(int device) { return device >= 0 && device < settings().devices; }

cudaUUID_t unique_id(int device) {
  cudaUUID_t id{};
  std::memset(&id, device + 1, sizeof id);
  return id;
}

/// The driver's function, which the runtime only finds.
int driver_unique_id(cudaUUID_t* id, int device) {
  *id = unique_id(device);
  return 0;
}

/// device.cc adds a page to each large block, to align it. The page counts as outside.
std::size_t slack_of(std::size_t bytes) { return bytes > kPage ? kPage : 0; }

constexpr std::size_t kMemory = std::size_t{8} << 30;  ///< bytes of each GPU

void* allocate(std::size_t bytes, std::size_t slack) {
  Region& memory = device_memory();
  if (bytes == 0 || bytes > kMemory) return nullptr;
  if (memory.allocated(current_device()) + bytes > kMemory) return nullptr;
  return memory.allocate(bytes, slack, current_device());
}

/// Releases a block after all work, as CUDA does.
cudaError_t release(Region& memory, void* data, const char* function) {
  if (data == nullptr) return cudaSuccess;
  host_waits_for_all();
  if (memory.release(data)) return cudaSuccess;
  report(std::string(function) + " of memory that is not a block");
  return cudaErrorInvalidValue;
}

/// Memory of a program that is not pinned. CUDA copies it through a buffer of its own.
bool is_pageable(const void* data, std::size_t bytes) {
  return !device_memory().has(data) && !pinned_memory().has(data) && !is_registered(data, bytes);
}

void add_copy(void* to, const void* from, std::size_t bytes, CUstream_st& stream) {
  Work work{stored("copy"), {}, {}};
  std::vector<char> buffer;
  if (is_pageable(from, bytes)) {
    buffer.assign(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
  } else {
    work.touches.push_back({from, bytes, false});
  }
  if (!is_pageable(to, bytes)) work.touches.push_back({to, bytes, true});
  work.run = [to, from, bytes, buffer = std::move(buffer)] {
    std::memcpy(to, buffer.empty() ? from : buffer.data(), bytes);
    return true;
  };
  add_work(std::make_shared<const Work>(std::move(work)), stream);
}

cudaError_t copy(void* to, const void* from, std::size_t bytes, CUstream_st& stream) {
  if (bytes == 0) return cudaSuccess;
  const bool pageable = is_pageable(from, bytes) || is_pageable(to, bytes);
  if (pageable && stream.capture != nullptr) {
    return invalidate(*stream.capture, "a copy of pageable memory in a capture",
                      cudaErrorStreamCaptureUnsupported);
  }
  add_copy(to, from, bytes, stream);
  // A copy to pageable memory returns when it is complete, one from there when it is in the buffer.
  if (is_pageable(to, bytes)) host_waits_for(Point(stream.point));
  return cudaSuccess;
}

void fill(void* data, int value, std::size_t bytes, CUstream_st& stream) {
  const std::size_t checked = device_memory().without_slack(data, bytes);
  Work work{stored("memset"), {{data, checked, true}}, [=] {
              std::memset(data, value, bytes);
              return true;
            }};
  add_work(std::make_shared<const Work>(std::move(work)), stream);
}

}  // namespace

int current_device() { return device_of_thread; }

void* allocate_device(std::size_t bytes) {
  const Lock lock;
  return allocate(bytes, 0);
}

bool free_device(void* data) {
  const Lock lock;
  return device_memory().release(data);
}

}  // namespace emulator

using emulator::call;
using emulator::call_outside_of_captures;

extern "C" {

// --- devices ------------------------------------------------------------------------------------

cudaError_t cudaGetDeviceCount(int* count) {
  return call([&] {
    *count = emulator::settings().devices;
    return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
  });
}

cudaError_t cudaSetDevice(int device) {
  return call([&] {
    if (!emulator::exists(device)) return cudaErrorInvalidDevice;
    emulator::device_of_thread = device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return call([&] { return *device = emulator::current_device(), cudaSuccess; });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call([&] {
    if (!emulator::exists(device)) return cudaErrorInvalidDevice;
    *properties = {};
    std::strcpy(properties->name, "emulated GPU");
    properties->uuid = emulator::unique_id(device);
    properties->pciBusID = device + 1;
    properties->totalGlobalMem = emulator::kMemory;
    properties->major = 9;
    properties->warpSize = 32;
    properties->maxThreadsPerBlock = 1024;
    properties->multiProcessorCount = 132;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return call([&] { return *least = 0, *greatest = -5, cudaSuccess; });
}

cudaError_t cudaRuntimeGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  return call([&] {
    const bool known = std::strcmp(symbol, "cuDeviceGetUuid") == 0;
    *function = known ? reinterpret_cast<void*>(emulator::driver_unique_id) : nullptr;
    *result = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return emulator::call_outside_of_captures("cudaDeviceSynchronize", [] {
    emulator::host_waits_for_all();
    return cudaSuccess;
  });
}

// --- memory -----------------------------------------------------------------------------------

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  return call_outside_of_captures("cudaMalloc", [&] {
    *data = nullptr;
    if (bytes == 0) return cudaSuccess;
    if (!emulator::is_to_fail("cudaMalloc"))
      *data = emulator::allocate(bytes, emulator::slack_of(bytes));
    return *data != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
  });
}

cudaError_t cudaFree(void* data) {
  return call_outside_of_captures(
      "cudaFree", [&] { return emulator::release(emulator::device_memory(), data, "cudaFree"); });
}

cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
  return call_outside_of_captures("cudaHostAlloc", [&] {
    *data = nullptr;
    if (bytes == 0) return cudaSuccess;
    if (!emulator::is_to_fail("cudaHostAlloc"))
      *data = emulator::pinned_memory().allocate(bytes, emulator::slack_of(bytes), 0);
    return *data != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
  });
}

cudaError_t cudaFreeHost(void* data) {
  return call_outside_of_captures("cudaFreeHost", [&] {
    return emulator::release(emulator::pinned_memory(), data, "cudaFreeHost");
  });
}

cudaError_t cudaHostRegister(void* data, std::size_t bytes, unsigned) {
  return call_outside_of_captures("cudaHostRegister", [&] {
    if (data == nullptr || bytes == 0) return cudaErrorInvalidValue;
    if (emulator::is_to_fail("cudaHostRegister")) return cudaErrorMemoryAllocation;
    const bool pinned = emulator::register_host(data, bytes);
    return pinned ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered;
  });
}

cudaError_t cudaHostUnregister(void* data) {
  return call_outside_of_captures("cudaHostUnregister", [&] {
    return emulator::unregister_host(data) ? cudaSuccess : cudaErrorHostMemoryNotRegistered;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t handle) {
  return emulator::call_in_stream(
      handle, [&](CUstream_st& stream) { return emulator::copy(to, from, bytes, stream); });
}

cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t handle) {
  return emulator::call_in_stream(handle, [&](CUstream_st& stream) {
    emulator::fill(data, value, bytes, stream);
    return cudaSuccess;
  });
}

// It does not wait for the GPU.
cudaError_t cudaMemset(void* data, int value, std::size_t bytes) {
  return call_outside_of_captures("cudaMemset", [&] {
    // Else what a kernel reads without having written it stays NaN.
    static const bool works = std::getenv("EMULATOR_MEMSET") == nullptr;
    if (works) emulator::fill(data, value, bytes, emulator::stream_of(nullptr));
    return cudaSuccess;
  });
}
}
