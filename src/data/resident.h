// ResidentSet: a data set in memory of a device, from which a device makes batches
// (src/data/samples.h).
#pragma once

#include <cstddef>

#include "src/data/dataset.h"
#include "src/data/samples.h"
#include "src/device/device.h"

namespace lockstep {

/// Used by one thread.
class ResidentSet {
 public:
  /// Whether `dataset` stores bytes that a device can hold.
  static bool possible(const Dataset& dataset) {
    return dataset.format().kind != SampleFormat::Kind::values;
  }
  /// Copies all samples to `device`, which outlives this. Throws Error if its memory is short.
  ResidentSet(Device& device, const Dataset& dataset);

  /// Enqueues in `stream` the work that makes a batch.
  void enqueue_batch(Stream& stream, const BatchRequest& request, const BatchViews& batch) const;
  std::size_t bytes() const;

 private:
  SampleFormat format_;
  std::int64_t size_;
  Memory samples_, labels_;
};

}  // namespace lockstep
