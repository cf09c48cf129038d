// The canonical sum, and the slices that ranks sum.
#include "collectives/sum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "collectives/schedule.h"
#include "src/base/random.h"

namespace lockstep {
namespace {

using Floats = std::vector<float>;

/// `size` arrays of numbers so far apart that another order of adding gives other bits.
std::vector<Floats> noise(int size, std::int64_t count) {
  std::vector<Floats> parts;
  for (int part = 0; part < size; ++part) {
    Random random(1, Purpose::generate, 0, static_cast<std::uint32_t>(part));
    Floats& values = parts.emplace_back(count);
    for (float& value : values)
      value = std::ldexp(random.normal(), static_cast<int>(random.below(20)));
  }
  return parts;
}

std::vector<float*> places(std::vector<Floats>& parts) {
  std::vector<float*> result;
  for (Floats& part : parts) result.push_back(part.data());
  return result;
}

TEST(SumCanonically, AddsBottomUpPairs) {
  for (const int size : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 33}) {
    for (const std::int64_t count : {0, 1, 17, 4000}) {
      std::vector<Floats> is = noise(size, count), wanted = is;
      sum_canonically(places(is), count);
      for (int d = 1; d < size; d *= 2) {
        for (int r = 0; r + d < size; r += 2 * d)
          add(wanted[r].data(), wanted[r + d].data(), count);
      }
      for (const Floats& part : is) EXPECT_TRUE(part == wanted[0]) << size << " parts of " << count;
    }
  }
}

TEST(SumCanonically, TheNoiseTellsOrdersApart) {
  std::vector<Floats> parts = noise(3, 1000);
  int other = 0;
  for (std::size_t i = 0; i < 1000; ++i)
    other += (parts[0][i] + parts[1][i]) + parts[2][i] != parts[0][i] + (parts[1][i] + parts[2][i]);
  EXPECT_GT(other, 50);
}

TEST(PartOf, CutsAtLinesIfAsked) {
  for (const Range range : {Range{32, 0}, Range{32, 5}, Range{64, 1000}, Range{0, 16 * 7}}) {
    for (int parts = 1; parts <= 9; ++parts) {
      std::int64_t at = range.begin;
      for (int part = 0; part < parts; ++part) {
        const Range slice = part_of(range, part, parts, kLineFloats);
        EXPECT_EQ(slice.begin, at);
        EXPECT_GE(slice.count, 0);
        EXPECT_TRUE(slice.begin % 16 == 0) << "of whole lines";
        at = slice.end();
      }
      EXPECT_EQ(at, range.end());
    }
  }
}

}  // namespace
}  // namespace lockstep
