// One flipped bit on one rank is found, and named on all ranks.
#include "apps/step/replica_check.h"

#include <gtest/gtest.h>

#include <bit>
#include <string>
#include <vector>

#include "tests/mpi/world.h"
#include "tests/support/error_of.h"

namespace lockstep {
namespace {

Layout layout_of_two() {
  Layout layout;
  layout.parameters = {{"conv/weights", {}, {}, 0, {16, 100}, 0},
                       {"conv/biases", {}, {}, 0, {128, 3}, 0}};
  layout.count = 144;
  return layout;
}

std::vector<float> same_everywhere() {
  std::vector<float> values(144);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.25f;
  return values;
}

void flip_lowest_bit(float& value) {
  value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ 1u);
}

/// The error of verify_mirror() for `values` and an average; empty: there is none.
std::string complaint(const std::vector<float>& values, const char* section = "parameters",
                      const std::vector<float>& average = same_everywhere()) {
  return agreed_error_of([&] {
    verify_mirror(world().comm(), layout_of_two(),
                  {{section, values.data()}, {"ema", average.data()}}, 7);
  });
}

TEST(ReplicaCheck, AcceptsEqualRanks) { EXPECT_EQ(complaint(same_everywhere()), ""); }

TEST(ReplicaCheck, IgnoresGapsBetweenParameters) {
  std::vector<float> values = same_everywhere();
  const auto own = static_cast<float>(world().comm().rank());
  values[0] = values[120] = values[140] = own;
  EXPECT_EQ(complaint(values), "");
}

TEST(ReplicaCheck, NamesTheRankAndTheParameterOfOneFlippedBit) {
  const int ranks = world().comm().size();
  if (ranks == 1) GTEST_SKIP();
  const Layout layout = layout_of_two();
  for (int odd = 0; odd < ranks; ++odd) {
    for (const Parameter& parameter : layout.parameters) {
      for (const std::int64_t i : {parameter.range.begin, parameter.range.end() - 1}) {
        std::vector<float> values = same_everywhere();
        if (world().comm().rank() == odd) flip_lowest_bit(values[i]);
        // Two ranks have no majority: rank 1 is named.
        EXPECT_TRUE(
            mentions(complaint(values), {"step 7", fmt::format("rank {}", ranks == 2 ? 1 : odd),
                                         "parameters/" + parameter.name}));
      }
    }
  }
}

TEST(ReplicaCheck, NamesTheFirstParameterThatDiffers) {
  if (world().comm().size() == 1) GTEST_SKIP();
  std::vector<float> values = same_everywhere();
  if (world().comm().rank() == 1) {
    flip_lowest_bit(values[16]);
    flip_lowest_bit(values[128]);
  }
  EXPECT_TRUE(mentions(complaint(values), {"conv/weights"}));
}

TEST(ReplicaCheck, ComparesOptimizerSlotsAndAverages) {
  if (world().comm().size() == 1) GTEST_SKIP();
  std::vector<float> values = same_everywhere();
  if (world().comm().rank() == 1) flip_lowest_bit(values[129]);
  EXPECT_TRUE(
      mentions(complaint(values, "optimizer/momentum"), {"optimizer/momentum/conv/biases"}));
  EXPECT_TRUE(mentions(complaint(same_everywhere(), "parameters", values), {"ema/conv/biases"}));
}

}  // namespace
}  // namespace lockstep
