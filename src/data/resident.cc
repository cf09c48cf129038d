#include "src/data/resident.h"

#include <algorithm>
#include <cstring>

#include "src/data/read_in_parallel.h"

namespace lockstep {
namespace {

/// Samples that are read and copied at a time.
constexpr std::int64_t kPart = 4096;

}  // namespace

ResidentSet::ResidentSet(Device& device, const Dataset& dataset)
    : format_(dataset.format()), size_(dataset.size()) {
  const std::size_t count = size_, each = format_.bytes();
  samples_ = device.allocate(count * each, Place::device);
  labels_ = device.allocate(count * sizeof(std::int32_t), Place::device);
  // The host's copy of the set is made in parts. A whole one would need as much memory of the host
  // as the set has.
  const std::int64_t most = std::min(kPart, size_);
  const Memory part = device.allocate(most * each, Place::host),
               labels = device.allocate(count * sizeof(std::int32_t), Place::host);
  auto* label = reinterpret_cast<std::int32_t*>(labels.get());
  for (std::int64_t i = 0; i < size_; ++i) label[i] = dataset.label(i);
  const std::unique_ptr<Stream> stream = device.stream();
  device.copy(*stream, labels_.get(), label, count * sizeof(std::int32_t));
  for (std::int64_t first = 0; first < size_; first += kPart) {
    const std::int64_t here = std::min(kPart, size_ - first);
    read_in_parallel(stream->threads(), here, 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        auto* to = reinterpret_cast<std::uint8_t*>(part.get()) + i * each;
        const std::uint8_t* from = dataset.stored(first + i, to);
        if (from != to) std::memcpy(to, from, each);
      }
    });
    device.copy(*stream, samples_.get() + first * each, part.get(), here * each);
    // The next part is read into the same memory.
    stream->synchronize();
  }
}

std::size_t ResidentSet::bytes() const { return size_ * (format_.bytes() + sizeof(std::int32_t)); }

void ResidentSet::enqueue_batch(Stream& stream, const BatchRequest& request,
                                const BatchViews& batch) const {
  make_batch(stream, format_,
             {samples_.get(), reinterpret_cast<const std::int32_t*>(labels_.get()), size_}, request,
             batch);
}

}  // namespace lockstep
