// Samples as a network sees them, made from stored bytes: one by one on the host, or whole batches
// in memory of a device. One body serves both, so both give the same bits.
#pragma once

#include <cstdint>

#include "src/base/random.h"
#include "src/base/view.h"
#include "src/data/dataset.h"
#include "src/data/mixing.h"
#include "src/data/pixel_edits.h"
#include "src/device/device.h"

namespace lockstep {

/// A stored sample and what training does to it.
struct SampleSource {
  const std::uint8_t* bytes = nullptr;
  Random* random = nullptr;  ///< for the augmentation; null: as evaluation sees the sample
  PixelEdits edits = {};
};

/// Another sample that is mixed in.
struct MixedSource {
  SampleSource source;
  Mix mix;
};

/// Writes one sample to `out` as elements of `type`, on the calling thread. `other` may be null.
/// SampleFormat::Kind::words takes Type::i32 and no `other`.
void make_sample(const SampleFormat& format, const SampleSource& own, const MixedSource* other,
                 void* out, Type type);

/// The samples of a batch: those at position + offset, + 1, ... of a stream of samples
/// (src/data/loader.h). Pointers are the device's.
struct BatchRequest {
  const std::int64_t* position = nullptr;  ///< null: 0
  std::int64_t offset = 0;
  /// Permutations of the set, that of epoch e at e mod `kept`. Null: samples come in the order of
  /// their index.
  const std::uint32_t* orders = nullptr;
  std::int64_t kept = 1;
  /// Whether samples are augmented, with the numbers of (seed, epoch, sample).
  bool augment = false;
  std::uint64_t seed = 0;
  PixelAugmentations pixels = {};  ///< only with `augment`
  /// By sample, those of epoch e at e mod `kept`. Null: no samples are mixed.
  const Mix* mixes = nullptr;
};

/// A whole data set in memory of a device.
struct StoredSamples {
  const std::byte* bytes = nullptr;  ///< of all samples, format.bytes() each
  const std::int32_t* labels = nullptr;
  std::int64_t size = 0;  ///< in samples
};

/// Memory that a batch is written to: as many samples as there are labels (i32).
struct BatchViews {
  View images, labels;
  /// The partners' labels (i32) and the own samples' weights (f32). Empty if no samples are mixed.
  View other_labels = {}, weights = {};
};

/// Gives `stream` the work that makes a batch.
void make_batch(Stream& stream, const SampleFormat& format, const StoredSamples& samples,
                const BatchRequest& request, const BatchViews& batch);

}  // namespace lockstep
