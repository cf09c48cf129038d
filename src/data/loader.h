// Loader: the stream of training batches of one rank, prepared ahead by a thread of its own.
//
// The stream is endless and belongs to the run, not to a rank: position g (0, 1, 2, ...) is sample
// permutation(seed, epoch)[g mod size] of epoch g / size, augmented with numbers keyed by (seed,
// epoch, sample). Step t of a run with global batch B consumes positions t * B .. t * B + B - 1;
// shard s of S is the s-th part of B / S of them. No sample is dropped and no step is short,
// whatever B is: a batch may cross from one epoch into the next.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "src/data/dataset.h"
#include "src/view.h"

namespace lockstep {

/// permutation(seed, epoch): the order in which `size` samples are seen in `epoch` (Fisher-Yates,
/// Purpose::shuffle).
std::vector<std::uint32_t> permutation(std::uint64_t seed, std::uint32_t epoch, std::int64_t size);

struct LoaderSpec {
  std::uint64_t seed = 0;
  std::int64_t global_batch = 0;
  int shards = 1;                       ///< of the global batch; divides it
  int first_shard = 0, own_shards = 1;  ///< this rank's: [first_shard, first_shard + own_shards)
  std::int64_t first_position = 0;      ///< g at which the run begins or goes on
  Type type = Type::f32;                ///< of the images
  bool augment = true;
  int depth = 4;  ///< shard batches prepared ahead
};

/// One shard's samples of one step. Valid until the next call of next().
struct Batch {
  View images;                      ///< (global_batch / shards) x sample shape
  View labels;                      ///< i32
  std::int64_t first_position = 0;  ///< g of its first sample
};

/// Used by one thread. `dataset` must outlive it.
class Loader {
 public:
  Loader(const Dataset& dataset, const LoaderSpec& spec);
  ~Loader();
  /// The next of this rank's shards: own_shards calls make one step. Waits if none is ready;
  /// rethrows what its thread threw.
  Batch next();
  /// Seconds that next() has waited since construction: 0 where loading is hidden.
  double waited_seconds() const;
  std::size_t bytes() const;  ///< memory held for prepared batches and permutations

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace lockstep
