#include <algorithm>
#include <array>
#include <limits>

#include "src/base/random.h"
#include "src/device/cuda/planner.h"
#include "src/device/cuda/runtime.h"
#include "src/device/each.h"

namespace lockstep::cuda {
namespace {

/// Numbers in [-1, 1). Products of zeros need less power and would be too fast.
template <class T>
struct Draw {
  T* to;
  HOST_DEVICE void operator()(std::int64_t i) const {
    const std::array<std::uint32_t, 4> block = philox({static_cast<std::uint32_t>(i)}, {1, 1});
    to[i] = static_cast<float>(static_cast<std::int32_t>(block[0])) * 0x1p-31f;
  }
};

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

std::byte* RaceTrack::at_least(Room& room, std::size_t bytes) {
  if (room.memory == nullptr || room.bytes < bytes) {
    room = {};  // before the new one
    room.memory = device_.allocate(bytes, Place::device);
    room.bytes = bytes;
  }
  return room.memory.get();
}

void* RaceTrack::numbers(Room& room, std::int64_t count, Type type) {
  std::byte* const data = at_least(room, static_cast<std::size_t>(count) * size_of(type));
  dispatch(type, [&]<class T>(T*) { each(*stream_, count, Draw<T>{reinterpret_cast<T*>(data)}); });
  return data;
}

std::size_t RaceTrack::winner(const Convolution& work, const Plans& plans) {
  const auto tensor = [&](Room& room, const Shape& shape, Pass writer) {
    const bool wide = work.fp32_result && work.pass == writer;
    return numbers(room, work.layers * shape.count(), wide ? Type::f32 : work.type);
  };
  const Tensors tensors{tensor(x_, work.x, Pass::backward_data),
                        tensor(w_, work.w, Pass::backward_weights),
                        numbers(b_, work.w[0], work.type), tensor(y_, work.y, Pass::forward)};
  stream_->synchronize();
  std::size_t winner = 0;
  float best = std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < plans.size(); ++i) {
    try {
      void* const workspace = at_least(workspace_, plans[i]->workspace_bytes());
      const float time = time_of(*stream_, *plans[i], tensors, workspace, best);
      if (time < best) best = time, winner = i;
    } catch (const Error&) {  // a plan that fails, or does not fit, loses
    }
  }
  expect(best < std::numeric_limits<float>::infinity(), "all plans of a race failed");
  return winner;
}

}  // namespace lockstep::cuda
