#include "src/data/loader.h"

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/floating_point.h"
#include "src/data/drawn_samples.h"
#include "src/data/read_in_parallel.h"

namespace lockstep {
namespace {

constexpr std::size_t kAlignment = 64;

/// Memory of one shard batch.
struct Slot {
  std::vector<std::byte> memory;
  std::vector<std::int32_t> labels, other_labels;
  std::vector<float> weights;
  std::byte* images = nullptr;  ///< the first aligned byte of memory
  std::int64_t first_position = 0;
};

Slot make_slot(std::int64_t samples, std::size_t image_bytes, bool mixed) {
  Slot slot;
  if (mixed) {
    slot.other_labels.resize(samples);
    slot.weights.resize(samples);
  }
  slot.memory.resize(image_bytes + kAlignment - 1);
  slot.labels.resize(samples);
  void* begin = slot.memory.data();
  std::size_t space = slot.memory.size();
  slot.images = static_cast<std::byte*>(std::align(kAlignment, image_bytes, begin, space));
  return slot;
}

/// A sample as one epoch sees it.
struct SampleKey {
  std::uint32_t epoch, sample;
  /// BalancedSamples::draw() of the epoch; null: each sample is seen once.
  std::shared_ptr<const std::vector<std::uint32_t>> drawn;

  std::uint32_t index() const { return drawn ? (*drawn)[sample] : sample; }  ///< in the data set
};

/// With the size of samples that the data set reads itself.
SampleFormat format_of(const Dataset& dataset) {
  SampleFormat format = dataset.format();
  if (format.kind != SampleFormat::Kind::values) return format;
  const Shape shape = dataset.sample_shape();
  format.size =
      shape.rank() == 4 ? ImageSize{shape[1], shape[2], shape[3]} : ImageSize{1, shape.row(), 1};
  return format;
}

}  // namespace

std::vector<std::uint32_t> shuffled(Random& random, std::int64_t size) {
  std::vector<std::uint32_t> order(size);
  std::iota(order.begin(), order.end(), 0u);
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[random.below(i)]);
  }
  return order;
}

std::vector<std::uint32_t> permutation(std::uint64_t seed, std::uint32_t epoch, std::int64_t size) {
  // The order depends on seed and epoch only. So each rank draws the whole order and reads its own
  // part of it, without a message.
  Random random(seed, Purpose::shuffle, epoch, 0);
  return shuffled(random, size);
}

// Batch number n of this rank lies in slots[n mod (depth + held)]. The caller uses the last `held`
// batches that it received, and the thread may be `depth` batches ahead of these. So they never use
// the same slot, and the lock guards only the counters.
struct HostLoader::Body {
  const Dataset& dataset;
  const LoaderSpec spec;
  const std::int64_t shard_batch;
  const int depth;
  const Shape sample;
  const SampleFormat format;
  const bool mixes;
  std::vector<Slot> slots;
  double waited = 0;

  std::mutex mutex;
  std::condition_variable_any changed;
  std::int64_t prepared = 0, handed = 0;  ///< batches, since construction
  std::exception_ptr error;

  // Used by the thread only. It draws the next order batches ahead of its use, so no step waits.
  std::int64_t epoch = -1;
  std::vector<std::uint32_t> order;
  std::shared_ptr<const std::vector<std::uint32_t>> drawn;  ///< SampleKey::drawn
  std::jthread thread;  ///< last, so that it ends before all that it uses

  Body(const Dataset& from, const LoaderSpec& how)
      : dataset(from),
        spec(how),
        shard_batch(how.shards > 0 ? how.global_batch / how.shards : 0),
        depth(std::max(how.depth, how.ahead * how.own_shards)),
        sample(from.sample_shape()),
        format(format_of(from)),
        mixes(how.augment && how.mixing.any()) {
    expect(spec.global_batch > 0 && spec.shards > 0 && spec.global_batch % spec.shards == 0,
           "the number of shards must divide the global batch");
    expect(spec.first_shard >= 0 && spec.own_shards > 0 &&
               spec.first_shard + spec.own_shards <= spec.shards,
           "a rank's shards must be shards of the batch");
    expect(spec.first_position >= 0 && spec.depth > 0 && spec.held > 0,
           "a loader needs a position and a depth");
    expect(dataset.size() > 0 && dataset.size() <= std::numeric_limits<std::uint32_t>::max(),
           "samples are numbered with 32 bits");
    expect((!spec.pixels.any() && !spec.mixing.any()) || sample.rank() == 4,
           "only images are edited and mixed");
    for (int i = 0; i < depth + spec.held; ++i) {
      slots.push_back(make_slot(shard_batch, shard_batch * sample_bytes(), mixes));
    }
    thread = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }

  std::size_t sample_bytes() const { return sample.count() * size_of(spec.type); }
  Slot& slot_of(std::int64_t n) { return slots[n % (depth + spec.held)]; }

  void run(const std::stop_token& stop) {
    use_default_floating_point();
    try {
      for (std::int64_t n = 0;; ++n) {
        std::unique_lock lock(mutex);
        // The slot of batch n belonged to batch n - depth - held. The caller must have received
        // `held` later batches before it is filled again.
        changed.wait(lock, stop, [&] { return n < handed + depth; });
        if (stop.stop_requested()) return;
        lock.unlock();
        with_exit_code(kExitData, [&] { prepare(n); });
        lock.lock();
        prepared = n + 1;
        lock.unlock();
        changed.notify_all();
      }
    } catch (...) {
      // The caller meets the error at the batch that could not be made, not before. Batches in
      // front of it are whole.
      const std::lock_guard lock(mutex);
      error = std::current_exception();
      changed.notify_all();
    }
  }

  /// Fills the slot of batch n; the loader's thread only, n ascending.
  void prepare(std::int64_t n) {
    Slot& slot = slot_of(n);
    slot.first_position = spec.first_position + n / spec.own_shards * spec.global_batch +
                          (spec.first_shard + n % spec.own_shards) * shard_batch;
    std::vector<SampleKey> keys;
    for (std::int64_t i = 0; i < shard_batch; ++i) {
      const std::int64_t position = slot.first_position + i;
      // A batch may cross from one epoch into the next, so the order can change between two
      // samples.
      if (position / dataset.size() != epoch) {
        epoch = position / dataset.size();
        const std::uint32_t number = epoch;
        order = permutation(spec.seed, number, dataset.size());
        if (spec.drawn) {
          drawn = std::make_shared<const std::vector<std::uint32_t>>(
              spec.drawn->draw(spec.seed, number));
        }
      }
      keys.push_back({static_cast<std::uint32_t>(epoch), order[position % dataset.size()], drawn});
    }
    read_in_parallel(spec.workers, shard_batch, 1, [&](std::int64_t begin, std::int64_t end) {
      // Memory for a thread of its own, because samples are read in parallel.
      std::vector<std::uint8_t> own(format.bytes()), partner(mixes ? format.bytes() : 0);
      for (std::int64_t i = begin; i < end; ++i) make(slot, i, keys[i], own, partner);
    });
  }

  /// Sample `i` of the slot. `own` and `partner` have room for the stored bytes of a sample.
  void make(Slot& slot, std::int64_t i, const SampleKey& key, std::vector<std::uint8_t>& own,
            std::vector<std::uint8_t>& partner) const {
    Random random = numbers_of(key);
    const SampleSource source = source_of(key, random, own, slot.labels[i]);
    if (!mixes) {
      make_sample(format, source, nullptr, slot.images + i * sample_bytes(), spec.type);
      return;
    }
    const Mix mix = draw_mix(spec.mixing, spec.seed, key.epoch, key.sample, dataset.size(),
                             sample[1], sample[2]);
    // The partner is augmented with its own numbers, as where this epoch sees it itself.
    const SampleKey other_key{key.epoch, mix.partner, key.drawn};
    Random other_random = numbers_of(other_key);
    const MixedSource other{source_of(other_key, other_random, partner, slot.other_labels[i]), mix};
    slot.weights[i] = mix.weight;
    make_sample(format, source, &other, slot.images + i * sample_bytes(), spec.type);
  }

  Random numbers_of(const SampleKey& key) const {
    return Random(spec.seed, Purpose::augment, key.epoch, key.sample);
  }
  /// A sample as this epoch sees it, and its label. A sample without stored bytes is read into
  /// `buffer` at once.
  SampleSource source_of(const SampleKey& key, Random& random, std::vector<std::uint8_t>& buffer,
                         std::int32_t& label) const {
    SampleSource source{buffer.data(), spec.augment ? &random : nullptr, {}};
    std::int64_t read = key.index();
    // A damaged sample is replaced by another one. The label must be that of the sample that was
    // read.
    if (format.kind == SampleFormat::Kind::values) {
      read = dataset.read_whole(read, source.random, buffer.data(), Type::f32);
    } else {
      source.bytes = dataset.stored(read, buffer.data());
    }
    label = dataset.label(read);
    if (spec.augment) {
      source.edits =
          PixelEdits::draw(spec.pixels, spec.seed, key.epoch, key.sample, sample[1], sample[2]);
    }
    return source;
  }

  /// Waits until `count` more batches than those handed out are prepared, or the thread has failed.
  void await(std::int64_t count, std::unique_lock<std::mutex>& lock) {
    const auto ready = [&] { return prepared >= handed + count || error; };
    if (ready()) return;
    const double begin = now_seconds();
    changed.wait(lock, ready);
    waited += now_seconds() - begin;
  }

  std::exception_ptr failure(std::int64_t steps) {
    // The thread never prepares more than `depth` batches ahead, so a wait for more would not end.
    const std::int64_t count = std::min<std::int64_t>(steps * spec.own_shards, depth);
    std::unique_lock lock(mutex);
    await(count, lock);
    return prepared < handed + count ? error : nullptr;
  }

  Batch next() {
    std::unique_lock lock(mutex);
    await(1, lock);
    if (prepared == handed) std::rethrow_exception(error);
    // `handed` changes within the lock, and the thread reads it there. The slot itself needs no
    // lock.
    Slot& slot = slot_of(handed++);
    lock.unlock();
    changed.notify_all();
    Batch batch{{{slot.images, sample.with_batch(shard_batch), spec.type},
                 {slot.labels.data(), {shard_batch}, Type::i32}},
                slot.first_position};
    if (mixes) {
      batch.other_labels = {slot.other_labels.data(), {shard_batch}, Type::i32};
      batch.weights = {slot.weights.data(), {shard_batch}, Type::f32};
    }
    return batch;
  }
};

HostLoader::HostLoader(const Dataset& dataset, const LoaderSpec& spec)
    : body_(std::make_unique<Body>(dataset, spec)) {}

HostLoader::~HostLoader() = default;

Batch HostLoader::next() { return body_->next(); }

std::exception_ptr HostLoader::failure(std::int64_t steps) { return body_->failure(steps); }

double HostLoader::waited_seconds() const { return body_->waited; }

std::size_t HostLoader::bytes() const {
  std::size_t total = 0;
  for (const Slot& slot : body_->slots) {
    total += slot.memory.size() +
             (slot.labels.size() + slot.other_labels.size()) * sizeof(std::int32_t) +
             slot.weights.size() * sizeof(float);
  }
  const BalancedSamples* drawn = body_->spec.drawn.get();
  if (drawn != nullptr) total += drawn->bytes();
  // While the thread draws an order it still has the one before.
  const std::size_t orders = drawn != nullptr ? 4 : 2;
  return total + orders * body_->dataset.size() * sizeof(std::uint32_t);
}

}  // namespace lockstep
