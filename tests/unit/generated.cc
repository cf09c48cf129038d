// The generated data sets: repeatable, balanced, and of the shape of the sets that they replace.
#include "src/data/sets/generated.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "src/base/table.h"

namespace lockstep {
namespace {

struct Case {
  const char* name;
  std::int64_t train;
  Shape sample;
};

const Case kCases[] = {{"digits", 60000, {1, 28, 28, 1}}, {"synthetic", 50000, {1, 24, 24, 3}}};

class Generated : public testing::TestWithParam<Case> {
 protected:
  static OpenedData open(std::uint64_t seed) {
    return find(datasets(), GetParam().name).open({"", seed});
  }
};

std::vector<float> sample(const Dataset& set, std::int64_t index) {
  std::vector<float> values(set.sample_shape().count());
  set.read(index, nullptr, values.data(), Type::f32);
  return values;
}

TEST_P(Generated, HaveTheShapeOfTheSetsTheyReplace) {
  const OpenedData pair = open(1);
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

TEST_P(Generated, DependOnlyOnSeedPartAndIndex) {
  const OpenedData one = open(1), same = open(1), other = open(2);
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
  const OpenedData pair = open(1);
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

INSTANTIATE_TEST_SUITE_P(Sets, Generated, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace lockstep
