#include <algorithm>
#include <limits>

#include "src/base/random.h"
#include "src/device/cuda/planner.h"
#include "src/device/cuda/runtime.h"

namespace lockstep::cuda {
namespace {

/// Memory of the device with numbers in [-1, 1). Products of zeros need less power and would be too
/// fast.
Memory random_memory(Device& device, Stream& stream, std::int64_t count, Type type) {
  const std::size_t bytes = count * size_of(type);
  Memory host = device.allocate(bytes, Place::host), memory = device.allocate(bytes, Place::device);
  Random random(1, Purpose::generate, 0, 0);
  dispatch(type, [&](auto* tag) {
    auto* values = reinterpret_cast<decltype(tag)>(host.get());
    for (std::int64_t i = 0; i < count; ++i) values[i] = random.uniform(-1, 1);
  });
  device.copy(stream, memory.get(), host.get(), bytes);
  stream.synchronize();
  return memory;
}

/// Milliseconds of one run of `plan`, the best of a few. A plan that is clearly slower than `best`
/// is measured only once.
float time_of(Stream& stream, const Plan& plan, const Tensors& tensors, void* workspace,
              float best) {
  constexpr int kRuns = 8, kRounds = 3;
  CudaHandle<cudaEvent_t, cudaEventDestroy> begin, end;
  for (auto* event : {&begin, &end}) check_cuda(cudaEventCreate(&event->handle), "cudaEventCreate");
  const auto time = [&](int runs) {
    check_cuda(cudaEventRecord(begin.handle, stream.cuda()), "cudaEventRecord");
    for (int i = 0; i < runs; ++i) plan.run(stream, tensors, workspace);
    check_cuda(cudaEventRecord(end.handle, stream.cuda()), "cudaEventRecord");
    check_cuda(cudaEventSynchronize(end.handle), "the GPU's work");
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, begin.handle, end.handle),
               "cudaEventElapsedTime");
    return milliseconds / static_cast<float>(runs);
  };
  time(1);  // loads the kernel
  float least = time(1);
  for (int round = 0; round < kRounds && least < 3 * best; ++round)
    least = std::min(least, time(kRuns));
  return least;
}

}  // namespace

std::size_t race(Device& device, Stream& stream, const Convolution& work, const Plans& plans) {
  const auto memory = [&](std::int64_t count) {
    return random_memory(device, stream, count, work.type);
  };
  const Memory x = memory(work.x.count()), w = memory(work.w.count()), b = memory(work.w[0]),
               y = memory(work.y.count());
  std::size_t bytes = 1;
  for (const auto& plan : plans) bytes = std::max(bytes, plan->workspace_bytes());
  const Memory workspace = device.allocate(bytes, Place::device);
  std::size_t winner = 0;
  float best = std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < plans.size(); ++i) {
    try {
      const float time =
          time_of(stream, *plans[i], {x.get(), w.get(), b.get(), y.get()}, workspace.get(), best);
      if (time < best) best = time, winner = i;
    } catch (const Error&) {  // a plan that fails loses
    }
  }
  expect(best < std::numeric_limits<float>::infinity(), "all plans of a race failed");
  return winner;
}

}  // namespace lockstep::cuda
