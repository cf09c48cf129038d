// Shared by the tests of the emulator: small programs of CUDA, with kernels written by hand in
// place of translated ones. Each kernel has two arrays.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/emulator/emulator.h"

extern "C" void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*,
                                       dim3*, dim3*, int*);

namespace emulator {

using Floats = std::vector<float>;

inline constexpr int kCount = 300;
inline constexpr std::size_t kBytes = kCount * sizeof(float);
inline constexpr std::uint32_t kLayout[2][2] = {{0, 8}, {8, 8}};

/// Makes a function of the two arrays a kernel.
struct TestKernel {
  template <class Body>
  TestKernel(const char* name, Body)
      : known({name, run<Body>, kLayout, 2, 16}), host(reinterpret_cast<const char*>(run<Body>)) {
    __cudaRegisterFunction(nullptr, host, nullptr, name, -1, nullptr, nullptr, nullptr, nullptr,
                           nullptr);
  }
  template <class Body>
  static void run(const std::uint8_t* parameters) {
    float* const* const arrays = reinterpret_cast<float* const*>(parameters);
    Body()(arrays[0], arrays[1]);
  }
  KnownKernel known;
  const char* host;
};

inline int thread() { return static_cast<int>(block_idx.x * block_dim.x + thread_idx.x); }
inline float load(const float* from) {
  check_access(from, sizeof *from, /*writes=*/false, /*atomic=*/false);
  return *from;
}
inline void store(float* to, float value, bool atomic = false) {
  check_access(to, sizeof *to, /*writes=*/true, atomic);
  *to = value;
}
inline std::uint32_t exchange(std::uint32_t word, std::uint32_t mask) {
  return shuffle_xor(word, mask, 31, ~0u);
}

/// to[i] = from[i] + 1
inline const TestKernel increment("Increment", [](float* to, float* from) {
  if (thread() < kCount) store(to + thread(), load(from + thread()) + 1);
});
/// to[i] = i
inline const TestKernel number("Number", [](float* to, float*) {
  if (thread() < kCount) store(to + thread(), static_cast<float>(thread()));
});

inline void succeed(cudaError_t error) { ASSERT_EQ(error, cudaSuccess); }

inline float* allocate(std::size_t bytes) {
  void* data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, bytes), cudaSuccess);
  return static_cast<float*>(data);
}

class Program : public testing::Test {
 protected:
  Program() {
    int least = 0, greatest = 0;
    succeed(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    for (cudaStream_t* stream : {&first_, &second_, &urgent_})
      succeed(cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking,
                                           stream == &urgent_ ? greatest : least));
    for (cudaEvent_t* event : {&fork_, &join_})
      succeed(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
    for (float* const array : {a_, b_}) succeed(cudaMemset(array, 0, kBytes));
    succeed(cudaHostAlloc(reinterpret_cast<void**>(&pinned_), kBytes, 0));
    succeed(cudaStreamSynchronize(nullptr));
  }
  ~Program() override {
    for (const cudaStream_t stream : {first_, second_, urgent_}) cudaStreamDestroy(stream);
    for (const cudaEvent_t event : {fork_, join_}) cudaEventDestroy(event);
    for (float* const array : {a_, b_}) cudaFree(array);
    cudaFreeHost(pinned_);
    EXPECT_EQ(take_reports(), std::vector<std::string>{}) << "of the end of the program";
  }

  static cudaError_t launch(const TestKernel& kernel, cudaStream_t stream, float* to,
                            float* from = nullptr, unsigned threads = 320) {
    void* arguments[] = {&to, &from};
    return cudaLaunchKernel(kernel.host, threads / 64, 64, arguments, 0, stream);
  }
  static cudaError_t copy(float* to, const float* from, cudaStream_t stream) {
    return cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDefault, stream);
  }
  static bool order_is(const std::string& order) {
    const char* const value = std::getenv("EMULATOR_ORDER");
    return order == (value == nullptr ? "late" : value);
  }
  /// `then` follows all work that `now` has so far.
  void order(cudaEvent_t event, cudaStream_t now, cudaStream_t then) {
    succeed(cudaEventRecord(event, now));
    succeed(cudaStreamWaitEvent(then, event, 0));
  }
  /// Completes all work. Then exactly `kinds` were reported.
  void expect_reports(const std::vector<std::string>& kinds) {
    succeed(cudaDeviceSynchronize());
    EXPECT_EQ(take_reports(), kinds);
  }
  /// Exactly one race was reported. The order decides which operation was first.
  void expect_race(const std::string& one, const std::string& other) {
    succeed(cudaDeviceSynchronize());
    const std::vector<std::string> kinds = take_reports();
    ASSERT_EQ(kinds.size(), 1u);
    if (kinds[0] == "race of streams [" + other + "] / [" + one + "]") return;
    EXPECT_EQ(kinds[0], "race of streams [" + one + "] / [" + other + "]");
  }

  cudaStream_t first_ = nullptr, second_ = nullptr, urgent_ = nullptr;
  cudaEvent_t fork_ = nullptr, join_ = nullptr;
  float *a_ = allocate(kBytes), *b_ = allocate(kBytes), *pinned_ = nullptr;
};

}  // namespace emulator
