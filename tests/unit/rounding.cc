// Rounding with error feedback: exact in every step, and over many steps.
#include "collectives/rounding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "src/base/random.h"

namespace lockstep {
namespace {

template <class T>
class Rounding : public testing::Test {};
using Types = testing::Types<Bfloat16, Half>;
TYPED_TEST_SUITE(Rounding, Types);

TYPED_TEST(Rounding, SplitsEachNumberWithoutALoss) {
  constexpr std::int64_t kCount = 1003;
  std::vector<float> values(kCount), kept(kCount), before;
  std::vector<TypeParam> sent(kCount);
  Random random(1, Purpose::generate, 0, 0);
  for (int step = 0; step < 3; ++step) {
    for (float& value : values)
      value = std::ldexp(random.normal(), static_cast<int>(random.below(20)) - 18);
    before = kept;
    round_with_feedback(values.data(), kept.data(), sent.data(), kCount);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float whole = values[i] + before[i];
      EXPECT_EQ(sent[i].bits, TypeParam(whole).bits) << "not the nearest";
      EXPECT_EQ(static_cast<double>(static_cast<float>(sent[i])) + kept[i], whole);
    }
  }
}

TYPED_TEST(Rounding, WhatIsTooLargeWaitsAndWhatIsNoNumberIsToldAndForgotten) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const float most = kLargest<TypeParam>, over = std::min(1.5f * most, 0x1.fffffep127f);
  const std::vector<float> values{over, -over, infinity, -infinity, nan, most};
  std::vector<float> kept(values.size());
  std::vector<TypeParam> sent(values.size());
  round_with_feedback(values.data(), kept.data(), sent.data(), 6);
  EXPECT_EQ(static_cast<float>(sent[0]), most);
  EXPECT_EQ(static_cast<float>(sent[1]), -most);
  EXPECT_EQ(kept[0], over - most);
  EXPECT_EQ(kept[1], most - over);
  EXPECT_EQ(static_cast<float>(sent[2]), infinity);
  EXPECT_EQ(static_cast<float>(sent[3]), -infinity);
  EXPECT_TRUE(std::isnan(static_cast<float>(sent[4])));
  EXPECT_EQ(static_cast<float>(sent[5]), most);
  for (int i = 2; i < 6; ++i) EXPECT_EQ(kept[i], 0);
}

}  // namespace
}  // namespace lockstep
