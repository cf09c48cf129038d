// Tensors of noise for benchmarks.
#pragma once

#include <vector>

#include "src/base/random.h"
#include "src/device/device.h"

namespace lockstep {

/// Owns the memory of its tensors, on `device`, which outlives it.
class NoiseTensors {
 public:
  explicit NoiseTensors(Device& device) : device_(device) {}

  /// Uniform from -scale to scale, another sequence for each tensor.
  View tensor(Shape shape, Type type, float scale = 1) {
    const View view{memory(shape.count() * size_of(type)), shape, type};
    const Memory host = device_.allocate(view.bytes() + 1, Place::host);
    Random random(1, Purpose::generate, 0, static_cast<std::uint32_t>(memory_.size()));
    dispatch(type, [&](auto* tag) {
      auto* to = reinterpret_cast<decltype(tag)>(host.get());
      for (std::int64_t i = 0; i < view.count(); ++i) to[i] = scale * random.uniform(-1, 1);
    });
    const std::unique_ptr<Stream> stream = device_.stream();
    device_.copy(*stream, view.data, host.get(), view.bytes());
    stream->synchronize();
    return view;
  }
  /// For example scratch; never null.
  std::byte* memory(std::size_t bytes) {
    memory_.push_back(device_.allocate(bytes + 1, Place::device));
    return memory_.back().get();
  }

 private:
  Device& device_;
  std::vector<Memory> memory_;
};

}  // namespace lockstep
