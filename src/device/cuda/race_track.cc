#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "src/base/random.h"
#include "src/device/cuda/race.h"
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

template <class T>
struct Fill {
  T* to;
  float value;
  HOST_DEVICE void operator()(std::int64_t i) const { to[i] = value; }
};

/// Sums of squares: of differences in the first half of `sums`, of `kept` in the second.
template <class T>
struct SumSquares {
  static constexpr std::int64_t kSums = 1 << 14;
  const T *now, *kept;
  float* sums;
  std::int64_t count;
  HOST_DEVICE void operator()(std::int64_t own) const {
    float off = 0, size = 0;
    for (std::int64_t i = own; i < count; i += kSums) {
      const float was = kept[i], difference = static_cast<float>(now[i]) - was;
      off += difference * difference;
      size += was * was;
    }
    sums[own] = off;
    sums[kSums + own] = size;
  }
};

class GpuTrack final : public Track {
 public:
  explicit GpuTrack(Device& device) : device_(device), stream_(device.stream()) {}

  void prepare(const Convolution& work) override {
    const auto tensor = [&](Room& room, const Shape& shape, Pass writer) {
      const bool written = work.pass == writer;
      const Type type = work.fp32_result && written ? Type::f32 : work.type;
      void* const data = numbers(room, work.layers * shape.count(), type);
      if (written) result_ = {data, {work.layers * shape.count()}, type};
      return data;
    };
    tensors_ = {tensor(x_, work.x, Pass::backward_data), tensor(w_, work.w, Pass::backward_weights),
                numbers(b_, work.w[0], work.type), tensor(y_, work.y, Pass::forward)};
    at_least(right_, result_.bytes());
    stream_->synchronize();
  }

  double run(const Plan& plan, bool reference) override {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    constexpr std::int64_t kSums = SumSquares<float>::kSums;
    std::array<float, 2 * kSums> sums;
    auto* const partial = reinterpret_cast<float*>(at_least(sums_, sizeof(sums)));
    void* const workspace = at_least(workspace_, plan.workspace_bytes());
    dispatch(result_.type, [&]<class T>(T*) {
      auto* const result = static_cast<T*>(result_.data);
      auto* const right = reinterpret_cast<T*>(right_.memory.get());
      each(*stream_, result_.count(), Fill<T>{result, kNan});
      plan.run(*stream_, tensors_, workspace);
      if (reference) device_.copy(*stream_, right, result, result_.bytes());
      each(*stream_, kSums, SumSquares<T>{result, right, partial, result_.count()});
    });
    device_.copy(*stream_, sums.data(), partial, sizeof(sums));
    stream_->synchronize();
    const double off = std::accumulate(sums.begin(), sums.begin() + kSums, 0.0);
    return off == 0 ? 0 : std::sqrt(off / std::accumulate(sums.begin() + kSums, sums.end(), 0.0));
  }

  float time_of(const Plan& plan, float best) override {
    constexpr int kRuns = 8, kRounds = 3;
    CudaHandle<cudaEvent_t, cudaEventDestroy> begin, end;
    for (auto* event : {&begin, &end})
      check_cuda(cudaEventCreate(&event->handle), "cudaEventCreate");
    const auto time = [&](int runs) {
      check_cuda(cudaEventRecord(begin.handle, stream_->cuda()), "cudaEventRecord");
      for (int i = 0; i < runs; ++i) plan.run(*stream_, tensors_, workspace_.memory.get());
      check_cuda(cudaEventRecord(end.handle, stream_->cuda()), "cudaEventRecord");
      check_cuda(cudaEventSynchronize(end.handle), "the GPU's work");
      float milliseconds = 0;
      check_cuda(cudaEventElapsedTime(&milliseconds, begin.handle, end.handle),
                 "cudaEventElapsedTime");
      return milliseconds / static_cast<float>(runs);
    };
    float least = time(1);
    for (int round = 0; round < kRounds && least < 3 * best; ++round)
      least = std::min(least, time(kRuns));
    return least;
  }

  void synchronize() override { stream_->synchronize(); }

 private:
  struct Room {
    Memory memory = {};
    std::size_t bytes = 0;
  };

  std::byte* at_least(Room& room, std::size_t bytes) {
    if (room.memory == nullptr || room.bytes < bytes) {
      room = {};  // before the new one
      room.memory = device_.allocate(bytes, Place::device);
      room.bytes = bytes;
    }
    return room.memory.get();
  }

  void* numbers(Room& room, std::int64_t count, Type type) {
    std::byte* const data = at_least(room, static_cast<std::size_t>(count) * size_of(type));
    dispatch(type,
             [&]<class T>(T*) { each(*stream_, count, Draw<T>{reinterpret_cast<T*>(data)}); });
    return data;
  }

  Device& device_;
  std::unique_ptr<Stream> stream_;
  Room x_, w_, b_, y_, workspace_, right_, sums_;
  Tensors tensors_;
  View result_;
};

}  // namespace

std::unique_ptr<Track> make_track(Device& device) { return std::make_unique<GpuTrack>(device); }

}  // namespace lockstep::cuda
