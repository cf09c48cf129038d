// Loaders for devices whose memory is not the host's, and the choice between them.

#include <sched.h>

#include <cstring>
#include <future>

#include "src/base/clock.h"
#include "src/base/floating_point.h"
#include "src/base/round_up.h"
#include "src/data/loader.h"
#include "src/data/resident.h"
#include "src/device/arena.h"

namespace lockstep {
namespace {

/// Memory of the batches of a step, at the same places in each step.
class BatchPlaces {
 public:
  BatchPlaces(Device& device, const Dataset& dataset, const LoaderSpec& spec)
      : samples_(spec.global_batch / spec.shards),
        lists_(spec.augment && spec.mixing.any() ? 4 : 2),
        images_{nullptr, dataset.sample_shape().with_batch(samples_), spec.type} {
    for (int shard = 0; shard < spec.own_shards; ++shard) {
      places_.push_back(arena_.reserve(images_.bytes()));
      for (int list = 1; list < lists_; ++list) places_.push_back(arena_.reserve(samples_ * 4));
    }
    arena_.allocate(device);
  }
  Batch at(int shard) const {
    const auto* place = &places_[lists_ * shard];
    Batch batch{{arena_.view(place[0], images_.shape, images_.type),
                 arena_.view(place[1], {samples_}, Type::i32)}};
    if (lists_ > 2) {
      batch.other_labels = arena_.view(place[2], {samples_}, Type::i32);
      batch.weights = arena_.view(place[3], {samples_}, Type::f32);
    }
    return batch;
  }
  /// The offset of `view` from the beginning of all batches.
  std::size_t offset(View view) const {
    return static_cast<std::byte*>(view.data) - static_cast<std::byte*>(arena_.at(0));
  }
  void* data() const { return arena_.at(0); }
  std::size_t bytes() const { return arena_.bytes(); }

 private:
  std::int64_t samples_;
  int lists_;  ///< of a batch: images, labels, and of mixed samples other labels and weights
  View images_;
  std::vector<std::size_t> places_;
  Arena arena_;
};

/// Memory of the host. Its copy to the device is under way until `copied`.
struct Staging {
  Memory memory;
  std::unique_ptr<Event> copied;

  Staging(Device& device, std::size_t bytes)
      : memory(device.allocate(bytes, Place::host)), copied(device.event()) {}
  /// Waits until the host may write it. Returns the seconds.
  double wait() const {
    if (copied->done()) return 0;
    const double start = now_seconds();
    while (!copied->done()) sched_yield();
    return now_seconds() - start;
  }
};

// The host prepares each batch and copies it to the device. Several steps may be enqueued at once.
// So a copy may still read its staging memory when the host has the next batch. There is one more
// staging memory than steps run ahead, and each is written again only after its copy. On the device
// one place is enough, because the stream orders the copy after the step that read it.
class StagedLoader : public Loader {
 public:
  StagedLoader(Device& device, const Dataset& dataset, const LoaderSpec& spec)
      : device_(device),
        own_shards_(spec.own_shards),
        host_(dataset, spec),
        places_(device, dataset, spec) {
    for (int n = 0; n <= device.traits().run_ahead; ++n)
      stagings_.emplace_back(device, places_.bytes());
  }

  void begin_step(Stream& stream) override {
    Staging& staging = stagings_[steps_++ % stagings_.size()];
    waited_ += staging.wait();
    for (int shard = 0; shard < own_shards_; ++shard) {
      const Batch from = host_.next(), to = places_.at(shard);
      // Views are empty unless samples are mixed.
      for (const auto& [view, place] : {std::pair(from.images, to.images),
                                        {from.labels, to.labels},
                                        {from.other_labels, to.other_labels},
                                        {from.weights, to.weights}}) {
        if (view)
          std::memcpy(staging.memory.get() + places_.offset(place), view.data, view.bytes());
      }
    }
    device_.copy(stream, places_.data(), staging.memory.get(), places_.bytes());
    staging.copied->record(stream);
  }
  Batch batch(Stream&, int shard, const std::int64_t*) override { return places_.at(shard); }
  std::exception_ptr failure(std::int64_t steps) override { return host_.failure(steps); }
  double waited_seconds() const override { return waited_ + host_.waited_seconds(); }
  std::size_t bytes() const override {
    return host_.bytes() + (1 + stagings_.size()) * places_.bytes();
  }
  std::string describe() const override { return host_.describe() + ", then copied to the device"; }

 private:
  Device& device_;
  int own_shards_;
  HostLoader host_;
  BatchPlaces places_;
  std::vector<Staging> stagings_;
  std::size_t steps_ = 0;
  double waited_ = 0;
};

/// An epoch as the host has drawn it.
struct Drawn {
  std::vector<std::uint32_t> order;
  std::vector<Mix> mixes;  ///< by sample; empty if samples are not mixed
};

/// `mixing`: its mixup and CutMix only with spec.augment. `seen`: the shape of a sample.
Drawn draw(const Mixing& mixing, std::uint64_t seed, std::uint32_t epoch, std::int64_t size,
           const Shape& seen) {
  use_default_floating_point();
  Drawn drawn{permutation(seed, epoch, size), {}};
  for (std::int64_t sample = 0; mixing.any() && sample < size; ++sample) {
    drawn.mixes.push_back(draw_mix(mixing, seed, epoch, sample, size, seen[1], seen[2]));
  }
  return drawn;
}

/// The host draws the order and the mixes of an epoch. It copies them to the device before the
/// first step that needs them, and after the last step that needs those at the same place.
class ResidentLoader : public Loader {
 public:
  ResidentLoader(Device& device, const Dataset& dataset, const LoaderSpec& spec)
      : device_(device),
        spec_(spec),
        size_(dataset.size()),
        kept_(ceil_div(spec.global_batch - 1, size_) + 1),
        set_(device, dataset),
        places_(device, dataset, spec),
        seen_(dataset.sample_shape()),
        mixing_(spec.augment ? spec.mixing : Mixing{}),
        orders_(device.allocate(kept_ * epoch_bytes(), Place::device)),
        position_(spec.first_position),
        next_epoch_(position_ / size_) {
    for (std::int64_t n = 0; n < kept_; ++n) stagings_.emplace_back(device, epoch_bytes());
    draw_ahead();
  }

  void begin_step(Stream& stream) override {
    // The orders of all epochs that this step meets are copied before its work. The place of an
    // epoch is free by then: kept_ epochs are the most that one step meets. The stream orders the
    // copy after earlier steps.
    const std::int64_t end = position_ + spec_.global_batch;
    for (; next_epoch_ * size_ < end; draw_ahead()) {
      Staging& staging = stagings_[next_epoch_ % kept_];
      waited_ += staging.wait();
      const double start = now_seconds();
      // Time that the order is not ready counts as waiting for data.
      const Drawn drawn = drawn_.get();
      waited_ += now_seconds() - start;
      std::memcpy(staging.memory.get(), drawn.order.data(), order_bytes());
      const std::int64_t place = next_epoch_++ % kept_;
      device_.copy(stream, orders_.get() + place * order_bytes(), staging.memory.get(),
                   order_bytes());
      if (mixing_.any()) {
        std::byte* from = staging.memory.get() + order_bytes();
        std::memcpy(from, drawn.mixes.data(), mix_bytes());
        device_.copy(stream, mixes() + place * mix_bytes(), from, mix_bytes());
      }
      staging.copied->record(stream);
    }
    position_ = end;
  }
  Batch batch(Stream& stream, int shard, const std::int64_t* position) override {
    const Batch batch = places_.at(shard);
    const std::int64_t samples = spec_.global_batch / spec_.shards;
    set_.enqueue_batch(stream,
                       {.position = position,
                        .offset = (spec_.first_shard + shard) * samples,
                        .orders = reinterpret_cast<const std::uint32_t*>(orders_.get()),
                        .kept = kept_,
                        .augment = spec_.augment,
                        .seed = spec_.seed,
                        .pixels = spec_.pixels,
                        .mixes = mixing_.any() ? reinterpret_cast<const Mix*>(mixes()) : nullptr},
                       batch);
    return batch;
  }
  double waited_seconds() const override { return waited_; }
  std::size_t bytes() const override {
    return set_.bytes() + places_.bytes() + 2 * kept_ * epoch_bytes();
  }
  std::string describe() const override { return "made on the device, where the data set lies"; }

 private:
  std::size_t order_bytes() const { return size_ * sizeof(std::uint32_t); }
  std::size_t mix_bytes() const { return mixing_.any() ? size_ * sizeof(Mix) : 0; }
  std::size_t epoch_bytes() const { return order_bytes() + mix_bytes(); }
  /// The mixes, which follow the orders.
  std::byte* mixes() const { return orders_.get() + kept_ * order_bytes(); }
  // An order of many samples takes longer than a step. So another thread draws it while the epoch
  // before is in use.
  void draw_ahead() {
    drawn_ = std::async(std::launch::async, draw, mixing_, spec_.seed, next_epoch_, size_, seen_);
  }

  Device& device_;
  LoaderSpec spec_;
  std::int64_t size_;
  std::int64_t kept_;  ///< orders on the device: as many as epochs meet in one step
  ResidentSet set_;
  BatchPlaces places_;
  Shape seen_;  ///< of a sample
  Mixing mixing_;
  Memory orders_;  ///< and mixes
  std::vector<Staging> stagings_;
  std::int64_t position_;    ///< of the first sample of the next step
  std::int64_t next_epoch_;  ///< whose order is not yet on the device
  std::future<Drawn> drawn_;
  double waited_ = 0;
};

}  // namespace

std::unique_ptr<Loader> make_loader(Device& device, const Dataset& dataset,
                                    const LoaderSpec& spec) {
  if (device.traits().memory_is_host) return std::make_unique<HostLoader>(dataset, spec);
  // Short memory of the device is no error, because the batches can come from the host. Orders on
  // the device are of samples, so drawn samples need the host too.
  if (ResidentSet::possible(dataset) && !spec.drawn) {
    try {
      return std::make_unique<ResidentLoader>(device, dataset, spec);
    } catch (const OutOfMemory&) {
    }
  }
  return std::make_unique<StagedLoader>(device, dataset, spec);
}

}  // namespace lockstep
