// The generated data set: repeatable, balanced, held out, and with classes that can be told apart
// but not at a glance.
#include "src/data/synthetic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace lockstep {
namespace {

std::vector<float> sample(const Dataset& set, std::int64_t index) {
  std::vector<float> values(static_cast<std::size_t>(set.sample_shape().count()));
  set.read(index, nullptr, values.data(), Type::f32);
  return values;
}

TEST(Synthetic, HasTheShapeOfCifar10) {
  const DatasetPair pair = open_synthetic("", 1);
  EXPECT_EQ(pair.train->size(), 50000);
  EXPECT_EQ(pair.test->size(), 10000);
  EXPECT_EQ(pair.train->classes(), 10);
  EXPECT_EQ(pair.train->sample_shape(), (Shape{1, 24, 24, 3}));
  EXPECT_EQ(std::set<std::string>(pair.class_names.begin(), pair.class_names.end()).size(), 10u);
  for (const Dataset* set : {pair.train.get(), pair.test.get()}) {
    std::vector<std::int64_t> count(10);
    for (std::int64_t i = 0; i < set->size(); ++i)
      ++count.at(static_cast<std::size_t>(set->label(i)));
    EXPECT_EQ(count, std::vector<std::int64_t>(10, set->size() / 10));
  }
}

TEST(Synthetic, DependsOnSeedPartAndIndexAlone) {
  const DatasetPair one = open_synthetic("", 1), same = open_synthetic("", 1);
  const DatasetPair other = open_synthetic("", 2);
  for (const std::int64_t index : {4321, 0, 9999}) {
    const auto values = sample(*one.train, index);
    EXPECT_EQ(values, sample(*same.train, index));
    EXPECT_EQ(values, sample(*one.train, index));
    EXPECT_NE(values, sample(*one.test, index));
    EXPECT_NE(values, sample(*one.train, index + 10));
    EXPECT_NE(values, sample(*other.train, index));
  }
}

/// Share of 400 test samples whose nearest training sample, of 1000 by Euclidean distance, has
/// their label.
double nearest_neighbour_accuracy(const DatasetPair& pair) {
  std::vector<std::vector<float>> known;
  for (std::int64_t i = 0; i < 1000; ++i) known.push_back(sample(*pair.train, i));
  int right = 0;
  for (std::int64_t i = 0; i < 400; ++i) {
    const auto asked = sample(*pair.test, i);
    float best = INFINITY;
    std::int64_t nearest = 0;
    for (std::int64_t j = 0; j < 1000; ++j) {
      float distance = 0;
      for (std::size_t k = 0; k < asked.size(); ++k) {
        const float difference = asked[k] - known[static_cast<std::size_t>(j)][k];
        distance += difference * difference;
      }
      if (distance < best) {
        best = distance;
        nearest = j;
      }
    }
    right += pair.train->label(nearest) == pair.test->label(i);
  }
  return right / 400.0;
}

// Chance is 0.1, with a standard deviation of 0.015.
TEST(Synthetic, PixelsSpeakOfTheClassButDoNotGiveItAway) {
  const double accuracy = nearest_neighbour_accuracy(open_synthetic("", 1));
  EXPECT_GT(accuracy, 0.15);
  EXPECT_LT(accuracy, 0.4);
}

}  // namespace
}  // namespace lockstep
