// Random numbers: Philox against the published known answers, streams that depend only on their
// key, and the moments of each distribution. All seeds are fixed, so no test fails by chance.
#include "src/base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <set>
#include <vector>

namespace lockstep {
namespace {

using Block = std::array<std::uint32_t, 4>;

TEST(Philox, MatchesTheKnownAnswers) {
  // kat_vectors of Random123, the reference implementation of the paper's authors.
  const Block zeros{0, 0, 0, 0}, ones{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff};
  EXPECT_EQ(philox(zeros, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(ones, {0xffffffff, 0xffffffff}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, IsPhiloxOfItsKeyAndACount) {
  Random random(0x0123456789abcdef, Purpose::augment, 7, 42);
  for (std::uint32_t count = 0; count < 3; ++count) {
    const Block block = philox({count, static_cast<std::uint32_t>(Purpose::augment), 7, 42},
                               {0x89abcdef, 0x01234567});
    for (const std::uint32_t expected : block) EXPECT_EQ(random.next(), expected);
  }
}

TEST(Random, StreamsOfDifferentKeysDiffer) {
  std::vector<Random> streams;
  for (const std::uint64_t seed : {0ull, 1ull, 1ull << 32}) {
    for (const Purpose purpose : {Purpose::shuffle, Purpose::augment, Purpose::initialize,
                                  Purpose::dropout, Purpose::generate}) {
      for (const std::uint32_t epoch : {0u, 1u}) {
        for (const std::uint32_t index : {0u, 1u, 4294967295u})
          streams.emplace_back(seed, purpose, epoch, index);
      }
    }
  }
  std::set<std::pair<std::uint32_t, std::uint32_t>> seen;
  for (Random& random : streams) {
    const std::uint32_t first = random.next();
    seen.insert({first, random.next()});
  }
  EXPECT_EQ(seen.size(), streams.size());
}

/// Means of x, x^2 and x^4 over `draws` draws.
struct Moments {
  double first = 0, second = 0, fourth = 0;
};
Moments moments(const std::function<double()>& draw, int draws) {
  Moments m;
  for (int i = 0; i < draws; ++i) {
    const double x = draw();
    m.first += x / draws;
    m.second += x * x / draws;
    m.fourth += x * x * x * x / draws;
  }
  return m;
}

constexpr int kDraws = 1 << 20;  // the mean of these is within 0.005 at five deviations

TEST(Random, UniformIsAMultipleOfItsGrainBelowOne) {
  Random random(1, Purpose::generate, 0, 0);
  float lowest = 1, highest = 0;
  const Moments m = moments(
      [&] {
        const float x = random.uniform();
        EXPECT_EQ(x * 0x1p24f, std::floor(x * 0x1p24f));
        lowest = std::min(lowest, x);
        highest = std::max(highest, x);
        return x;
      },
      kDraws);
  EXPECT_GE(lowest, 0.0f);
  EXPECT_LT(highest, 1.0f);
  EXPECT_LT(lowest, 1e-4f);
  EXPECT_GT(highest, 1 - 1e-4f);
  EXPECT_NEAR(m.first, 1 / 2., 0.002);
  EXPECT_NEAR(m.second, 1 / 3., 0.002);
  EXPECT_NEAR(m.fourth, 1 / 5., 0.002);
}

TEST(Random, BelowIsUniform) {
  Random random(2, Purpose::shuffle, 0, 0);
  std::vector<int> count(9);
  for (int i = 0; i < kDraws; ++i) ++count.at(random.below(9));
  double chi_square = 0;
  for (const int n : count) {
    const double difference = n - kDraws / 9.;
    chi_square += difference * difference / (kDraws / 9.);
  }
  EXPECT_LT(chi_square, 26.1);  // 0.1 % point for 8 degrees of freedom
  EXPECT_EQ(Random(2, Purpose::shuffle, 0, 0).below(1), 0u);
}

TEST(Random, NormalHasTheMomentsOfANormal) {
  Random random(3, Purpose::initialize, 0, 0);
  const Moments m = moments([&] { return random.normal(); }, kDraws);
  EXPECT_NEAR(m.first, 0, 0.005);
  EXPECT_NEAR(m.second, 1, 0.008);
  EXPECT_NEAR(m.fourth, 3, 0.06);
}

TEST(Random, TruncatedNormalHasTheMomentsOfOneCutAtTwo) {
  Random random(4, Purpose::initialize, 0, 0);
  double farthest = 0;
  const Moments m = moments(
      [&] {
        const double x = random.truncated_normal();
        farthest = std::max(farthest, std::abs(x));
        return x;
      },
      kDraws);
  const double density = std::exp(-2.0) / std::sqrt(2 * std::numbers::pi),
               kept = std::erf(std::sqrt(2.0));
  const double second = 1 - 4 * density / kept, fourth = 3 * second - 16 * density / kept;
  EXPECT_LE(farthest, 2.0);
  EXPECT_GT(farthest, 1.99);
  EXPECT_NEAR(m.first, 0, 0.005);
  EXPECT_NEAR(m.second, second, 0.005);  // 0.7737
  EXPECT_NEAR(m.fourth, fourth, 0.02);   // 1.416
}

}  // namespace
}  // namespace lockstep
