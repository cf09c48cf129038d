// The generated digits: repeatable, balanced, held out, on MNIST's scale, and with classes that can
// be told apart.
#include "src/data/digits.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lockstep {
namespace {

std::vector<float> sample(const Dataset& set, std::int64_t index) {
  std::vector<float> values(static_cast<std::size_t>(set.sample_shape().count()));
  set.read(index, nullptr, values.data(), Type::f32);
  return values;
}

TEST(Digits, HaveTheShapeOfMnist) {
  const DatasetPair pair = open_digits("", 1);
  EXPECT_EQ(pair.train->size(), 60000);
  EXPECT_EQ(pair.test->size(), 10000);
  EXPECT_EQ(pair.train->sample_shape(), (Shape{1, 28, 28, 1}));
  EXPECT_EQ(static_cast<int>(pair.class_names.size()), pair.train->classes());
  for (std::int64_t i = 0; i < 30; ++i)
    EXPECT_EQ(pair.class_names.at(static_cast<std::size_t>(pair.test->label(i))),
              std::to_string(i % 10));
}

TEST(Digits, DependOnSeedPartAndIndexAlone) {
  const DatasetPair one = open_digits("", 1), same = open_digits("", 1), other = open_digits("", 2);
  EXPECT_EQ(one.identity, same.identity);
  EXPECT_NE(one.identity, other.identity);
  for (const std::int64_t index : {4321, 0, 9999}) {
    const auto values = sample(*one.train, index);
    EXPECT_EQ(values, sample(*same.train, index));
    EXPECT_NE(values, sample(*one.test, index));
    EXPECT_NE(values, sample(*one.train, index + 10));
    EXPECT_NE(values, sample(*other.train, index));
  }
}

TEST(Digits, AreOnTheScaleOfMnist) {
  const DatasetPair pair = open_digits("", 1);
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

/// Share of 300 test samples whose nearest training sample, of 1000 by Euclidean distance, has
/// their label. Chance is 0.1.
TEST(Digits, CanBeToldApart) {
  const DatasetPair pair = open_digits("", 1);
  std::vector<std::vector<float>> known;
  for (std::int64_t i = 0; i < 1000; ++i) known.push_back(sample(*pair.train, i));
  int right = 0;
  for (std::int64_t i = 0; i < 300; ++i) {
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
  EXPECT_GT(right, 150);
  EXPECT_LT(right, 297) << "too easy to train anything on";
}

}  // namespace
}  // namespace lockstep
