// ResidentSet: a data set in memory of a device, as bytes, and the work that makes batches of it,
// bit for bit those of Dataset::read().
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/data/dataset.h"
#include "src/data/mixing.h"
#include "src/device/device.h"

namespace lockstep {

/// Which samples make a batch: those at position + offset, + 1, ... of a stream. Pointers are the
/// device's.
struct Picked {
  /// Null: 0.
  const std::int64_t* position = nullptr;
  std::int64_t offset = 0;
  /// Permutations of the set, that of epoch e at e mod `kept`; null: samples are in the order of
  /// their index.
  const std::uint32_t* orders = nullptr;
  std::int64_t kept = 1;
  /// With the numbers of (seed, epoch, sample), as Dataset::read() draws them.
  bool augment = false;
  std::uint64_t seed = 0;
  /// Of images that are augmented; 0: none.
  int cutout = 0;
  /// By sample, those of epoch e as `orders`; null: none are mixed.
  const Mix* mixes = nullptr;
};

/// Used by one thread.
class ResidentSet {
 public:
  /// Whether `dataset` can be resident anywhere: its samples are records.
  static bool possible(const Dataset& dataset) { return dataset.records() != Records::none; }
  /// Copies all records to `device`, which outlives this. Throws
  /// Error where its memory is short.
  ResidentSet(Device& device, const Dataset& dataset);

  /// Gives `stream` the work that fills `images` and `labels` (i32, as many as samples are wanted),
  /// and of mixed samples the partners' labels and the own weights (f32).
  void give_batch(Stream& stream, const Picked& picked, View images, View labels,
                  View other_labels = {}, View weights = {}) const;
  std::size_t bytes() const { return bytes_; }

 private:
  Records kind_;
  ImageForm form_;
  int padding_;
  bool alternate_;
  std::int64_t size_, record_bytes_;
  std::size_t bytes_;
  Memory records_, labels_;
};

}  // namespace lockstep
