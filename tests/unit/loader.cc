// The stream of batches: the same for any number of ranks, complete in every epoch, and the same
// from any position on.
#include "src/data/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <map>
#include <numeric>
#include <thread>
#include <vector>

#include "src/base/check.h"
#include "src/data/mixing.h"
#include "tests/support/expect_error.h"
#include "tests/support/test_dataset.h"

namespace lockstep {
namespace {

/// Sample i has label i and three values: i, and two that depend on the augmentation's numbers.
class Numbers : public TestDataset {
 public:
  explicit Numbers(int size) : TestDataset(size, size, {1, 1, 1, 3}) {}
  void read(std::int64_t index, Random* random, void* out, Type type) const override {
    if (++reads == fail_at) fail("record {} is damaged", index);
    const float drawn[2] = {random ? random->uniform() : 0, random ? random->uniform() : 0};
    dispatch(type, [&]<class T>(T*) {
      T* y = static_cast<T*>(out);
      y[0] = T(static_cast<float>(index));
      y[1] = T(drawn[0]);
      y[2] = T(drawn[1]);
    });
  }

  mutable std::atomic<std::int64_t> reads = 0;
  std::int64_t fail_at = 0;
};

struct Sample {
  std::int64_t position;
  std::int32_t label;
  float values[3];
  bool operator==(const Sample&) const = default;
};

/// The samples of the next `batches` batches of `loader`.
std::vector<Sample> next_samples(HostLoader& loader, int batches) {
  std::vector<Sample> result;
  for (int n = 0; n < batches; ++n) {
    const Batch batch = loader.next();
    EXPECT_EQ(batch.images.shape[0], batch.labels.count());
    for (std::int64_t i = 0; i < batch.labels.count(); ++i) {
      const float* y = batch.images.as<float>() + 3 * i;
      result.push_back(
          {batch.first_position + i, batch.labels.as<std::int32_t>()[i], {y[0], y[1], y[2]}});
    }
  }
  return result;
}

/// Calls read(loader, batches) for each of `ranks` ranks, whose batches are `steps` steps.
void for_each_rank(const Dataset& set, LoaderSpec spec, int ranks, int steps,
                   const std::function<void(HostLoader&, int)>& read) {
  spec.own_shards = spec.shards / ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    spec.first_shard = rank * spec.own_shards;
    HostLoader loader(set, spec);
    read(loader, steps * spec.own_shards);
  }
}

/// The same `steps` steps read by `ranks` ranks, in the order of positions.
std::vector<Sample> read_by(const Dataset& set, const LoaderSpec& spec, int ranks, int steps) {
  std::vector<Sample> all;
  for_each_rank(set, spec, ranks, steps, [&](HostLoader& loader, int batches) {
    const auto part = next_samples(loader, batches);
    all.insert(all.end(), part.begin(), part.end());
  });
  std::sort(all.begin(), all.end(),
            [](const Sample& a, const Sample& b) { return a.position < b.position; });
  return all;
}

LoaderSpec spec_of(std::int64_t global_batch, int shards) {
  return {.seed = 77, .global_batch = global_batch, .shards = shards, .own_shards = shards};
}

TEST(Permutation, IsFisherAndYatesOnTheShuffleNumbers) {
  const auto order = permutation(5, 3, 1000);
  std::vector<std::uint32_t> want(1000);
  std::iota(want.begin(), want.end(), 0u);
  Random random(5, Purpose::shuffle, 3, 0);
  for (std::uint32_t i = 999; i > 0; --i) std::swap(want[i], want[random.below(i + 1)]);
  EXPECT_EQ(order, want);
  EXPECT_NE(order, permutation(5, 4, 1000));
  EXPECT_NE(order, permutation(6, 3, 1000));
  EXPECT_TRUE(permutation(5, 3, 0).empty());
}

TEST(Loader, FollowsThePermutationOfEachEpoch) {
  const Numbers set(50);
  HostLoader loader(set, spec_of(16, 2));
  const auto samples =
      next_samples(loader, 2 * 20);  // 320 positions: epochs 0 to 6, and 50 is no multiple of 8
  ASSERT_EQ(samples.size(), 320u);
  for (std::int64_t g = 0; g < 320; ++g) {
    const auto epoch = static_cast<std::uint32_t>(g / 50);
    const std::uint32_t index = permutation(77, epoch, 50)[g % 50];
    Random random(77, Purpose::augment, epoch, index);
    const float first = random.uniform(), second = random.uniform();
    const Sample want{
        g, static_cast<std::int32_t>(index), {static_cast<float>(index), first, second}};
    ASSERT_EQ(samples[g], want) << g;
  }
}

TEST(Loader, IsTheSameForAnyNumberOfRanks) {
  const Numbers set(101);
  for (const std::int64_t global_batch :
       {4, 28, 240}) {  // within an epoch, across two, and more than two in one step
    const LoaderSpec spec = spec_of(global_batch, 4);
    const auto one = read_by(set, spec, 1, 9);
    ASSERT_EQ(one.size(), static_cast<std::size_t>(9 * global_batch));
    EXPECT_EQ(one, read_by(set, spec, 2, 9));
    EXPECT_EQ(one, read_by(set, spec, 4, 9));
  }
}

TEST(Loader, ContinuesFromAnyPosition) {
  const Numbers set(37);
  const auto whole = read_by(set, spec_of(12, 4), 1, 30);
  for (const std::int64_t position : {12, 36, 37, 100, 240}) {
    LoaderSpec spec = spec_of(12, 4);
    spec.first_position = position;
    const auto rest = read_by(set, spec, 2, 10);
    ASSERT_EQ(rest.size(), 120u);
    EXPECT_TRUE(std::equal(rest.begin(), rest.end(), whole.begin() + position)) << position;
  }
}

TEST(Loader, WithoutAugmentationReadsAsEvaluationDoes) {
  const Numbers set(10);
  LoaderSpec spec = spec_of(5, 1);
  spec.augment = false;
  HostLoader loader(set, spec);
  for (const Sample& sample : next_samples(loader, 4)) EXPECT_EQ(sample.values[1], 0.0f);
}

/// Images of 4x5x2 whose values are their index and numbers of the augmentation.
class Squares : public TestDataset {
 public:
  Squares() : TestDataset(23, 23, {1, 4, 5, 2}) {}
  void read(std::int64_t index, Random* random, void* out, Type type) const override {
    const float drawn = random ? random->uniform() : 0;
    dispatch(type, [&]<class T>(T*) {
      for (int i = 0; i < 40; ++i)
        static_cast<T*>(out)[i] = T(static_cast<float>(index + 1) + drawn + static_cast<float>(i));
    });
  }
};

/// Some of these squares cannot be decoded.
class Holes : public Squares {
 public:
  static bool damaged(std::int64_t index) { return index % 7 == 3 || index > 20; }
  explicit Holes(bool skip) { log_damage(std::make_shared<DamageLog>(skip, "Do this.")); }
  void read(std::int64_t index, Random* random, void* out, Type type) const override {
    if (all || damaged(index)) throw DamagedSample(fmt::format("square {} is torn", index), "");
    Squares::read(index, random, out, type);
  }
  bool all = false;
};

/// Images, labels, other labels and weights of `steps` steps read by `ranks`, in the order of
/// positions.
std::vector<std::vector<float>> mixed_by(const LoaderSpec& spec, int ranks, int steps,
                                         const Squares& set = {}) {
  std::map<std::int64_t, std::vector<float>> all;
  for_each_rank(set, spec, ranks, steps, [&](HostLoader& loader, int batches) {
    for (; batches > 0; --batches) {
      const Batch batch = loader.next();
      for (std::int64_t i = 0; i < batch.labels.count(); ++i) {
        const float* image = batch.images.as<float>() + i * 40;
        std::vector<float>& sample = all[batch.first_position + i];
        sample.assign(image, image + 40);
        sample.push_back(static_cast<float>(batch.labels.as<std::int32_t>()[i]));
        if (!batch.weights) continue;
        sample.push_back(static_cast<float>(batch.other_labels.as<std::int32_t>()[i]));
        sample.push_back(batch.weights.as<float>()[i]);
      }
    }
  });
  std::vector<std::vector<float>> samples;
  for (auto& [position, sample] : all) samples.push_back(std::move(sample));
  return samples;
}

TEST(Loader, CutsAndMixesByTheNumbersOfEachSample) {
  const Squares set;
  LoaderSpec spec = spec_of(12, 1);
  for (const auto& [cutout, mixup] : {std::pair(3, 0.0f), {0, 0.5f}, {3, 0.5f}}) {
    spec.pixels = {{cutout}, {}};
    spec.mixing = {{mixup}, {}};
    const auto samples = mixed_by(spec, 1, 8);  // more than four epochs
    ASSERT_EQ(samples.size(), 96u);
    for (std::int64_t g = 0; g < 96; ++g) {
      const auto epoch = static_cast<std::uint32_t>(g / 23);
      const auto seen = [&](std::uint32_t index) {
        std::vector<float> image(40);
        Random random(77, Purpose::augment, epoch, index);
        set.read(index, &random, image.data(), Type::f32);
        if (cutout == 0) return image;
        Random cut_by(77, Cutout::kStream, epoch, index);
        const Hole cut = Cutout{3}.draw(cut_by, 4, 5);
        for (int i = 0; i < 40; ++i)
          if (cut.has(i / 10, i / 2 % 5)) image[i] = 0;
        return image;
      };
      const std::uint32_t index = permutation(77, epoch, 23)[g % 23];
      std::vector<float> wanted = seen(index);
      if (mixup > 0) {
        const Mix mix = draw_mix(77, epoch, index, 23, mixup);
        const std::vector<float> other = seen(mix.partner);
        for (std::size_t i = 0; i < 40; ++i) wanted[i] = mixed(mix.weight, wanted[i], other[i]);
        wanted.insert(wanted.end(),
                      {static_cast<float>(index), static_cast<float>(mix.partner), mix.weight});
      } else {
        wanted.push_back(static_cast<float>(index));
      }
      ASSERT_EQ(samples[g], wanted) << g;
    }
  }
}

TEST(Loader, MixesAreIndependentOfRanksShardsAndPosition) {
  LoaderSpec spec = spec_of(12, 4);
  spec.pixels = {{2}, {}};
  spec.mixing = {{0.3f}, {}};
  const auto one = mixed_by(spec, 1, 6);
  EXPECT_EQ(mixed_by(spec, 2, 6), one);
  EXPECT_EQ(mixed_by(spec, 4, 6), one);
  LoaderSpec other = spec_of(12, 1);
  other.pixels = spec.pixels;
  other.mixing = spec.mixing;
  EXPECT_EQ(mixed_by(other, 1, 6), one) << "in one shard";
  other = spec_of(24, 3);
  other.pixels = spec.pixels;
  other.mixing = spec.mixing;
  EXPECT_EQ(mixed_by(other, 1, 3), one) << "in other batches";
  spec.first_position = 36;
  EXPECT_EQ(mixed_by(spec, 2, 3), std::vector(one.begin() + 36, one.end()));
  spec.augment = false;
  for (const auto& sample : mixed_by(spec, 1, 2)) {
    EXPECT_EQ(sample.size(), 41u) << "without augmentation nothing is mixed";
    EXPECT_EQ(sample[1], sample[0] + 1) << "or cut";
  }
}

TEST(Loader, ReplacesADamagedSampleByTheNextWholeOne) {
  const Holes set(/*skip=*/true);
  LoaderSpec spec = spec_of(12, 4);
  const auto one = mixed_by(spec, 1, 6, set);
  for (std::size_t g = 0; g < one.size(); ++g) {
    std::int64_t wanted = permutation(77, static_cast<std::uint32_t>(g / 23), 23)[g % 23];
    while (Holes::damaged(wanted)) wanted = (wanted + 1) % 23;
    EXPECT_EQ(one[g].back(), static_cast<float>(wanted)) << "the label, at " << g;
    EXPECT_EQ(std::floor(one[g].front()), static_cast<float>(wanted + 1)) << "the image, at " << g;
  }
  const std::vector<std::string> named = set.damage()->take();
  EXPECT_EQ(named.size(), 5u) << "each once";
  EXPECT_NE(std::find(named.begin(), named.end(), "square 10 is torn"), named.end());
  for (const Mixing& mixing : {Mixing{}, Mixing{2, 0.3f}}) {
    spec.mixing = mixing;
    spec.first_position = 0;
    spec.workers = 1;
    const auto all = mixed_by(spec, 1, 6, set);
    EXPECT_EQ(mixed_by(spec, 2, 6, set), all);
#ifndef __SANITIZE_THREAD__  // it does not know the barriers of OpenMP's library
    spec.workers = 3;
#endif
    spec.first_position = 36;
    EXPECT_EQ(mixed_by(spec, 4, 3, set), std::vector(all.begin() + 36, all.end())) << "resumed";
  }
  EXPECT_TRUE(set.damage()->take().empty()) << "they are known";
}

TEST(Loader, RefusesDamagedSamplesWithTheCure) {
  const Holes some(/*skip=*/false);
  expect_error({"is torn. Do this."}, [&] { HostLoader(some, spec_of(23, 1)).next(); });
  Holes all(/*skip=*/true);
  all.all = true;
  expect_error({"in a row"}, [&] { HostLoader(all, spec_of(23, 1)).next(); });
}

TEST(Loader, KnowsAheadWhichStepCannotBeMade) {
  for (const int shards : {1, 8}) {  // more than are usually prepared ahead
    Numbers set(1000);
    set.fail_at = 3 * 8 + 5;  // within the fourth step
    LoaderSpec spec = spec_of(8, shards);
    spec.ahead = 2;
    HostLoader loader(set, spec);
    for (int done = 0; done < 3; ++done) {
      EXPECT_EQ(loader.failure(1), nullptr) << done;
      EXPECT_EQ(loader.failure(2) != nullptr, done == 2) << done;
      next_samples(loader, shards);
    }
    EXPECT_NE(loader.failure(1), nullptr);
  }
}

TEST(Loader, ReturnsBfloat16) {
  const Numbers set(10);
  LoaderSpec spec = spec_of(10, 1);
  spec.type = Type::bf16;
  HostLoader loader(set, spec);
  const Batch batch = loader.next();
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(static_cast<float>(batch.images.as<Bfloat16>()[3 * i]),
              batch.labels.as<std::int32_t>()[i]);
  }
}

// A batch stays as it is until the next call, however far ahead the thread would like to be.
TEST(Loader, PreparesNoMoreThanItsDepthAhead) {
  const Numbers set(1000);
  for (const int depth : {1, 2, 5}) {
    set.reads = 0;
    LoaderSpec spec = spec_of(8, 1);
    spec.depth = depth;
    HostLoader loader(set, spec);
    for (int loaded = 1; loaded < 20; ++loaded) {
      const Batch batch = loader.next();
      const std::vector<std::int32_t> labels(batch.labels.as<std::int32_t>(),
                                             batch.labels.as<std::int32_t>() + 8);
      while (set.reads < 8 * (loaded + depth)) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the chance to go too far
      EXPECT_EQ(set.reads, 8 * (loaded + depth));
      EXPECT_TRUE(std::equal(labels.begin(), labels.end(), batch.labels.as<std::int32_t>()));
    }
  }
}

TEST(Loader, RethrowsTheErrorOfItsThread) {
  Numbers set(100);
  set.fail_at = 3 * 8 + 5;  // within the fourth batch
  HostLoader loader(set, spec_of(8, 1));
  EXPECT_EQ(next_samples(loader, 3).size(), 24u);
  for (int again = 0; again < 2; ++again) expect_error({"is damaged"}, [&] { loader.next(); });
}

TEST(Loader, EndsWheneverItIsDestroyed) {
  const Numbers set(100);
  for (int round = 0; round < 20; ++round) {
    HostLoader loader(set, spec_of(8, 1));
    next_samples(loader, round % 7);
  }
}

TEST(Loader, CountsItsMemory) {
  const Numbers set(100);
  LoaderSpec spec = spec_of(8, 2);
  spec.depth = 3;
  const HostLoader loader(set, spec);
  const std::size_t least =
      4 * (4 * 3 * sizeof(float) + 4 * sizeof(std::int32_t)) + 100 * sizeof(std::uint32_t);
  EXPECT_GE(loader.bytes(), least);
  EXPECT_LE(loader.bytes(), least + 4 * 64 + 100 * sizeof(std::uint32_t));
}

TEST(Loader, HoldsTheRequestedNumberOfBatches) {
  const Numbers data(1000);
  const LoaderSpec spec{.global_batch = 8, .own_shards = 1, .depth = 2, .held = 3};
  HostLoader loader(data, spec), other(data, spec);
  for (int step = 0; step < 20; ++step) {
    std::vector<Batch> held;
    std::vector<float> before, after;
    const auto values = [](const Batch& batch) { return batch.images.as<float>()[0]; };
    for (int n = 0; n < spec.held; ++n) before.push_back(values(other.next()));
    for (int n = 0; n < spec.held; ++n) held.push_back(loader.next());
    // The thread has gone as far ahead as it may.
    const std::int64_t most = 8 * ((step + 1) * spec.held + spec.depth);
    while (data.reads < 2 * most) std::this_thread::yield();
    for (const Batch& batch : held) after.push_back(values(batch));
    EXPECT_EQ(after, before) << step;
  }
}

}  // namespace
}  // namespace lockstep
