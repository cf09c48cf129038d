// The generated data sets: repeatable, balanced, held out, of the shape of what they stand for, and
// with classes that can be told apart but not at a glance.
#include "src/data/sets/generated.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "src/data/sets/digits.h"
#include "src/data/sets/synthetic.h"

namespace lockstep {
namespace {

struct Case {
  const char* name;
  DatasetPair (*open)(const std::filesystem::path&, std::uint64_t);
  std::int64_t train;
  Shape sample;
  /// What the nearest neighbour of a test sample is right in, at least and at most; chance is 0.1.
  double least, most;
};

const Case kCases[] = {{"digits", open_digits, 60000, {1, 28, 28, 1}, 0.5, 0.99},
                       {"synthetic", open_synthetic, 50000, {1, 24, 24, 3}, 0.15, 0.4}};

class Generated : public testing::TestWithParam<Case> {
 protected:
  static DatasetPair open(std::uint64_t seed) { return GetParam().open("", seed); }
};

std::vector<float> sample(const Dataset& set, std::int64_t index) {
  std::vector<float> values(set.sample_shape().count());
  set.read(index, nullptr, values.data(), Type::f32);
  return values;
}

TEST_P(Generated, HaveTheShapeOfWhatTheyStandFor) {
  const DatasetPair pair = open(1);
  EXPECT_EQ(pair.train->size(), GetParam().train);
  EXPECT_EQ(pair.test->size(), 10000);
  EXPECT_EQ(pair.train->sample_shape(), GetParam().sample);
  EXPECT_EQ(pair.train->classes(), 10);
  EXPECT_EQ(std::set<std::string>(pair.class_names.begin(), pair.class_names.end()).size(), 10u);
  for (const Dataset* set : {pair.train.get(), pair.test.get()}) {
    std::vector<std::int64_t> count(10);
    for (std::int64_t i = 0; i < set->size(); ++i) ++count.at(set->label(i));
    EXPECT_EQ(count, std::vector<std::int64_t>(10, set->size() / 10));
  }
}

TEST_P(Generated, DependOnSeedPartAndIndexAlone) {
  const DatasetPair one = open(1), same = open(1), other = open(2);
  EXPECT_EQ(one.identity, same.identity);
  EXPECT_NE(one.identity, other.identity);
  for (const std::int64_t index : {4321, 0, 9999}) {
    const auto values = sample(*one.train, index);
    EXPECT_EQ(values, sample(*same.train, index));
    EXPECT_EQ(values, sample(*one.train, index));
    EXPECT_NE(values, sample(*one.test, index));
    EXPECT_NE(values, sample(*one.train, index + 10));
    EXPECT_NE(values, sample(*other.train, index));
  }
}

TEST_P(Generated, AreOnTheScaleOfRealOnes) {
  const DatasetPair pair = open(1);
  double sum = 0, squares = 0, count = 0;
  for (std::int64_t i = 0; i < 500; ++i) {
    for (const float value : sample(*pair.train, i)) {
      sum += value;
      squares += value * value;
      ++count;
    }
  }
  const double mean = sum / count, deviation = std::sqrt(squares / count - mean * mean);
  EXPECT_NEAR(mean, 0, 0.3);
  EXPECT_NEAR(deviation, 1, 0.3);
}

/// Share of 400 test samples whose nearest training sample, of 1000 by Euclidean distance, has
/// their label: with a standard deviation of 0.025 at most.
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
        const float difference = asked[k] - known[j][k];
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

TEST_P(Generated, PixelsSpeakOfTheClassButDoNotGiveItAway) {
  const double accuracy = nearest_neighbour_accuracy(open(1));
  EXPECT_GT(accuracy, GetParam().least);
  EXPECT_LT(accuracy, GetParam().most);
}

INSTANTIATE_TEST_SUITE_P(Sets, Generated, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace lockstep
