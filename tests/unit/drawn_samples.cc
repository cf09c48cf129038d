// Balanced sampling: classes are equally frequent in each epoch, and no sample waits for ever.
// Weighted sampling: samples are as frequent as their weights say. The stream depends on seed,
// epoch and position only.
#include "src/data/drawn_samples.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "src/data/loader.h"

namespace lockstep {
namespace {

constexpr int kSizes[] = {30, 3, 7, 0, 60};  ///< samples of each class
constexpr std::int64_t kSize = 100;

/// A sample has two values: its index, and a number of its augmentation.
class Unequal : public Dataset {
 public:
  std::int64_t size() const override { return kSize; }
  int classes() const override { return 5; }
  Shape sample_shape() const override { return {1, 1, 1, 2}; }
  std::int32_t label(std::int64_t index) const override {
    std::int32_t label = 0;
    for (; index >= kSizes[label]; ++label) index -= kSizes[label];
    return label;
  }
  std::string describe() const override { return "unequal classes"; }
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

std::vector<std::int64_t> counts_of(const std::vector<std::uint32_t>& drawn, std::size_t size) {
  std::vector<std::int64_t> counts(size);
  for (const std::uint32_t sample : drawn) ++counts.at(sample);
  return counts;
}

TEST(WeightedSamples, AreAsFrequentAsTheirWeights) {
  constexpr int kEpochs = 2000;
  const std::vector<double> weights{0, 1, 2, 0.1, 0, 7.25, 1e-9, 2, 1, 0.3, 0, 3};
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  const WeightedSamples samples(weights);
  std::vector<std::int64_t> all(weights.size());
  for (std::uint32_t epoch = 0; epoch < kEpochs; ++epoch) {
    const std::vector<std::uint32_t> drawn = samples.draw(1, epoch);
    ASSERT_EQ(drawn.size(), weights.size());
    const std::vector<std::int64_t> counts = counts_of(drawn, weights.size());
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const double wanted = weights[i] * static_cast<double>(weights.size()) / sum;
      EXPECT_GE(counts[i], std::floor(wanted)) << i;
      EXPECT_LE(counts[i], std::ceil(wanted)) << i;
      all[i] += counts[i];
    }
  }
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double wanted = weights[i] * static_cast<double>(weights.size()) / sum;
    EXPECT_NEAR(static_cast<double>(all[i]) / kEpochs, wanted, 0.05)
        << "by chance, of sample " << i;
  }
}

TEST(WeightedSamples, OfEqualWeightsAreAllSamples) {
  std::vector<std::uint32_t> each(1001);
  std::iota(each.begin(), each.end(), 0u);
  for (const double weight : {1.0, 0.1, 5e-324, 1e300})
    for (const std::uint32_t epoch : {0u, 5u})
      EXPECT_EQ(WeightedSamples(std::vector(each.size(), weight)).draw(3, epoch), each) << weight;
}

TEST(WeightedSamples, AreWholeNumbersOfTimesIfTheirSharesAre) {
  // 12 samples of the sum 12: no rounding may move an end of a sample.
  const std::vector<double> weights{0.1, 0.2, 0.1, 0, 0.3, 0, 0.1, 0.1, 0.2, 0.1, 0, 0};
  const std::vector<std::int64_t> wanted{1, 2, 1, 0, 3, 0, 1, 1, 2, 1, 0, 0};
  for (std::uint32_t epoch = 0; epoch < 100; ++epoch)
    EXPECT_EQ(counts_of(WeightedSamples(weights).draw(2, epoch), weights.size()), wanted);
}

TEST(WeightedSamples, MayBeVeryUnequal) {
  std::vector<double> weights(1000, 1e-300);
  weights[7] = 1e300;
  EXPECT_EQ(WeightedSamples(weights).draw(1, 0), std::vector<std::uint32_t>(1000, 7));
  EXPECT_EQ(WeightedSamples({0, 0.5}).draw(1, 0), (std::vector<std::uint32_t>{1, 1}));
  EXPECT_EQ(WeightedSamples({3}).draw(1, 0), (std::vector<std::uint32_t>{0}));
}

TEST(WeightedSamples, DependOnSeedAndEpoch) {
  std::vector<double> weights(10);
  std::iota(weights.begin(), weights.end(), 1.0);
  EXPECT_EQ(WeightedSamples(weights).draw(1, 3),
            (std::vector<std::uint32_t>{2, 3, 4, 5, 6, 7, 8, 8, 9, 9}))
      << "the meaning of a seed, as Python computes it with whole numbers of any size";
  weights.resize(1000, 0.3);
  const WeightedSamples samples(weights);
  const std::set<std::vector<std::uint32_t>> all{samples.draw(1, 3), samples.draw(2, 3),
                                                 samples.draw(1, 4)};
  EXPECT_EQ(all.size(), 3);
}

/// Three samples, of which the second cannot be read.
class Damaged : public Dataset {
 public:
  std::int64_t size() const override { return 3; }
  int classes() const override { return 1; }
  std::int32_t label(std::int64_t) const override { return 0; }
  std::string describe() const override { return "a damaged sample"; }
  void read(std::int64_t index, Random*, void*, Type) const override {
    if (index == 1) throw DamagedSample("damaged", "Replace it.");
  }
};

TEST(WeightedSamples, OfWeight0TakeNoPlaceOfDamagedOnes) {
  Damaged set;
  set.log_damage(std::make_shared<DamageLog>(/*skip=*/true, ""));
  EXPECT_EQ(set.read_whole(1, nullptr, nullptr, Type::f32), 2);
  set.weigh({0.5, 1, 0});
  EXPECT_EQ(set.read_whole(1, nullptr, nullptr, Type::f32), 0);
}

/// Label, index and number of each sample, and the label of its partner.
using Seen = std::vector<std::tuple<std::int32_t, float, float, std::int32_t>>;

/// The samples of the steps from `first` to before `last`, of 40 samples each, on `ranks` ranks.
Seen read_by(int ranks, int first, int last,
             const std::shared_ptr<const DrawnSamples>& drawn =
                 std::make_shared<BalancedSamples>(Unequal())) {
  const Unequal set;
  std::map<std::int64_t, Seen> parts;
  for (int rank = 0; rank < ranks; ++rank) {
    LoaderSpec spec{.seed = 5,
                    .global_batch = 40,
                    .shards = 4,
                    .first_shard = rank * 4 / ranks,
                    .own_shards = 4 / ranks,
                    .first_position = first * 40,
                    .drawn = drawn};
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

TEST(WeightedLoader, IsTheSameOnAnyRanksAndFromAnyStep) {
  std::vector<double> weights(kSize, 1);
  for (std::size_t i = 0; i < kSize; i += 3) weights[i] = 0;
  weights[4] = 9;
  const auto drawn = std::make_shared<WeightedSamples>(weights);
  const Seen all = read_by(1, 0, 10, drawn);
  EXPECT_EQ(read_by(4, 0, 10, drawn), all);
  EXPECT_EQ(read_by(2, 3, 10, drawn), Seen(all.begin() + 120, all.end()));
  std::map<std::int32_t, int> labels;
  for (const auto& [label, index, number, partner] : all) ++labels[label];
  EXPECT_NEAR(labels[0], 4 * 100 * 28 / 74.0, 4) << "four epochs";
  EXPECT_NEAR(labels[1], 4 * 100 * 2 / 74.0, 4);
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
