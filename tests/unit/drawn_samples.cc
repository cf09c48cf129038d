// Balanced sampling: classes are equally frequent in each epoch, and no sample waits for ever.
// The stream depends on seed, epoch and position only.
#include "src/data/drawn_samples.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "src/data/loader.h"
#include "tests/support/test_dataset.h"

namespace lockstep {
namespace {

constexpr int kSizes[] = {30, 3, 7, 0, 60};  ///< samples of each class

/// A sample has two values: its index, and a number of its augmentation.
class Unequal : public TestDataset {
 public:
  Unequal() : TestDataset(100, 5, {1, 1, 1, 2}) {}
  std::int32_t label(std::int64_t index) const override {
    std::int32_t label = 0;
    for (; index >= kSizes[label]; ++label) index -= kSizes[label];
    return label;
  }
  void read(std::int64_t index, Random* random, void* out, Type) const override {
    static_cast<float*>(out)[0] = static_cast<float>(index);
    static_cast<float*>(out)[1] = random->uniform();
  }
};

std::map<std::int32_t, std::int64_t> labels_of(const std::vector<std::uint32_t>& samples) {
  std::map<std::int32_t, std::int64_t> labels;
  for (const std::uint32_t sample : samples) ++labels[Unequal().label(sample)];
  return labels;
}

TEST(BalancedSamples, AllClassesAreEquallyFrequent) {
  const BalancedSamples balanced{Unequal()};
  for (const std::uint32_t epoch : {0u, 1u, 7u}) {
    const std::map<std::int32_t, std::int64_t> wanted{{0, 25}, {1, 25}, {2, 25}, {4, 25}};
    EXPECT_EQ(labels_of(balanced.draw(1, epoch)), wanted);
  }
}

TEST(BalancedSamples, EachClassPassesOverAllItsSamples) {
  const BalancedSamples balanced{Unequal()};
  std::map<std::int32_t, std::vector<std::uint32_t>> of_class;
  for (std::uint32_t epoch = 0; epoch < 12; ++epoch)
    for (const std::uint32_t sample : balanced.draw(1, epoch))
      of_class[Unequal().label(sample)].push_back(sample);
  for (const auto& [label, samples] : of_class) {
    const int size = kSizes[label];
    std::set<std::vector<std::uint32_t>> orders;
    for (auto pass = samples.begin(); samples.end() - pass >= size; pass += size) {
      orders.insert({pass, pass + size});
      EXPECT_EQ(std::set(pass, pass + size).size(), size) << "class " << label;
    }
    EXPECT_GT(orders.size(), 1) << "class " << label << " has always the same order";
  }
}

TEST(BalancedSamples, DependOnSeedAndEpoch) {
  const BalancedSamples one{Unequal()}, two{Unequal()};
  EXPECT_EQ(one.draw(1, 3), two.draw(1, 3));
  EXPECT_NE(one.draw(1, 3), one.draw(2, 3));
  EXPECT_NE(one.draw(1, 3), one.draw(1, 4));
}

/// Label, index and number of each sample, and the label of its partner.
using Seen = std::vector<std::tuple<std::int32_t, float, float, std::int32_t>>;

/// The samples of the steps from `first` to before `last`, of 40 samples each, on `ranks` ranks.
Seen read_by(int ranks, int first, int last) {
  const Unequal set;
  std::map<std::int64_t, Seen> parts;
  for (int rank = 0; rank < ranks; ++rank) {
    LoaderSpec spec{.seed = 5,
                    .global_batch = 40,
                    .shards = 4,
                    .first_shard = rank * 4 / ranks,
                    .own_shards = 4 / ranks,
                    .first_position = first * 40,
                    .drawn = std::make_shared<BalancedSamples>(set)};
    spec.mixing.Mixup::value = 1;
    HostLoader loader(set, spec);
    for (int n = 0; n < (last - first) * spec.own_shards; ++n) {
      const Batch batch = loader.next();
      Seen& part = parts[batch.first_position];
      for (std::int64_t i = 0; i < batch.labels.count(); ++i) {
        const float* values = batch.images.as<float>() + 2 * i;
        part.emplace_back(batch.labels.as<std::int32_t>()[i], values[0], values[1],
                          batch.other_labels.as<std::int32_t>()[i]);
      }
    }
  }
  Seen all;
  for (const auto& [position, part] : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST(BalancedLoader, IsTheSameOnAnyRanksAndFromAnyStep) {
  const Seen all = read_by(1, 0, 10);
  EXPECT_EQ(read_by(2, 0, 10), all);
  EXPECT_EQ(read_by(4, 0, 10), all);
  EXPECT_EQ(read_by(2, 3, 10), Seen(all.begin() + 120, all.end()));
}

TEST(BalancedLoader, RepeatsHaveTheirOwnAugmentation) {
  const Seen all = read_by(1, 0, 20);  // 8 epochs
  std::map<std::int32_t, std::int64_t> labels, partners;
  std::set<float> numbers;
  for (const auto& [label, index, number, partner] : all) {
    ++labels[label];
    ++partners[partner];
    numbers.insert(number);
  }
  EXPECT_EQ(numbers.size(), all.size());
  for (const int label : {0, 1, 2, 4}) {
    EXPECT_EQ(labels[label], 200);
    EXPECT_NEAR(static_cast<double>(partners[label]), 200, 45) << "by chance, of class " << label;
  }
}

}  // namespace
}  // namespace lockstep
