// Loader: the stream of training batches of one rank.
//
// The stream is endless and belongs to the run, not to a rank: position g (0, 1, 2, ...) is sample
// permutation(seed, epoch)[g mod size] of epoch g / size, augmented with numbers keyed by (seed,
// epoch, sample), and edited and mixed with others the same way (src/data/pixel_edits.h, mixing.h).
// With LoaderSpec::drawn, "sample" is an entry of the epoch that stands for a sample
// (src/data/drawn_samples.h).
// Step t of a run with global batch B consumes positions t * B .. t * B + B - 1; shard s of S is
// the s-th part of B / S of them. No sample is dropped and no step is short, whatever B is: a batch
// may cross from one epoch into the next.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "src/base/view.h"
#include "src/data/dataset.h"
#include "src/data/samples.h"

namespace lockstep {

class BalancedSamples;  // src/data/drawn_samples.h

/// The numbers 0 to size - 1 in a random order (Fisher-Yates).
std::vector<std::uint32_t> shuffled(Random& random, std::int64_t size);

/// permutation(seed, epoch): the order in which `size` samples are seen in `epoch`: shuffled() by
/// Purpose::shuffle.
std::vector<std::uint32_t> permutation(std::uint64_t seed, std::uint32_t epoch, std::int64_t size);

struct LoaderSpec {
  std::uint64_t seed = 0;
  std::int64_t global_batch = 0;
  int shards = 1;                       ///< of the global batch; divides it
  int first_shard = 0, own_shards = 1;  ///< this rank's: [first_shard, first_shard + own_shards)
  std::int64_t first_position = 0;      ///< g at which the run begins or goes on
  Type type = Type::f32;                ///< of the images
  bool augment = true;
  int depth = 4;                   ///< shard batches prepared ahead by the host
  int ahead = 0;                   ///< steps whose batches failure() may ask for
  int held = 1;                    ///< shard batches that are in use at once
  int workers = 1;                 ///< threads that read samples of one batch
  PixelAugmentations pixels = {};  ///< of images, only with `augment`
  Mixing mixing = {};              ///< the same
  /// The samples of each epoch; null: each sample once.
  std::shared_ptr<const BalancedSamples> drawn = {};
};

/// One shard's samples of one step: (global_batch / shards) x sample shape. Valid for `held` calls
/// of next(), its own included.
struct Batch : BatchViews {
  std::int64_t first_position = 0;  ///< g of its first sample
};

/// The source of a training step's batches, one for each of the rank's shards. Used by one thread.
class Loader {
 public:
  virtual ~Loader() = default;
  /// Begins the next step: enqueues the host's work for it before the step's own work. Waits until
  /// the host has finished that. Rethrows exceptions of the loader's thread.
  virtual void begin_step(Stream& stream) = 0;
  /// The batch of own shard `shard` in memory of the device, after the work in `stream`. Call it
  /// for the shards in order. On a device that repeats steps, the work and the place are the same
  /// in each step. The work reads the position of the step's first sample from `position`, memory
  /// of the device. The batch is valid until the next call, or on the host until the `held`-th next
  /// call.
  virtual Batch batch(Stream& stream, int shard, const std::int64_t* position) = 0;
  /// Waits until the batches of the next `steps` steps are prepared: at most LoaderSpec::ahead.
  /// Returns the exception because of which one of them cannot be made. Null: there is none.
  virtual std::exception_ptr failure(std::int64_t) { return nullptr; }
  /// Seconds that the calling thread has waited since construction: 0 if loading is hidden.
  virtual double waited_seconds() const = 0;
  /// Memory held for samples, batches and permutations.
  virtual std::size_t bytes() const = 0;
  /// "read from the device's memory"
  virtual std::string describe() const = 0;
};

/// A loader for `device`: a HostLoader if its memory is the host's; else the data set in its
/// memory, in which each step makes its batches. If the data set stores no bytes or does not fit,
/// or if the spec draws samples, a HostLoader whose batches are copied there. All give the same
/// bits. `dataset` and `device` outlive it.
std::unique_ptr<Loader> make_loader(Device& device, const Dataset& dataset, const LoaderSpec& spec);

/// Batches in memory of the host. `dataset` must outlive it.
class HostLoader : public Loader {
 public:
  HostLoader(const Dataset& dataset, const LoaderSpec& spec);
  ~HostLoader() override;
  /// The batch of this rank's next shard: own_shards calls make one step. Waits until it is ready.
  /// Rethrows exceptions of the loader's thread.
  Batch next();

  void begin_step(Stream&) override {}
  std::exception_ptr failure(std::int64_t steps) override;
  Batch batch(Stream&, int, const std::int64_t*) override { return next(); }
  double waited_seconds() const override;
  std::size_t bytes() const override;
  std::string describe() const override { return "prepared ahead by a thread of the host"; }

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace lockstep
