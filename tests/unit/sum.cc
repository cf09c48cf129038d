// The canonical sum as host code and as work of a stream, and the slices that ranks sum.
#include "collectives/sum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "collectives/schedule.h"
#include "src/base/random.h"
#include "tests/support/async_device.h"

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

TEST(SumCanonically, GivesTheSameBitsAsWorkOfAnyStream) {
  const auto later = make_async_device();
#ifdef __SANITIZE_THREAD__
  const int team = 1;  // ThreadSanitizer does not see how OpenMP orders more
#else
  const int team = 3;
#endif
  const std::unique_ptr<Stream> streams[] = {make_cpu_device(1)->stream(), later->stream(),
                                             std::make_unique<HostStream>(team)};
  for (int size = 1; size <= 8; ++size) {
    for (const std::int64_t count : {0, 1, 17, 40000}) {
      const std::vector<Floats> given = noise(size, count);
      std::vector<Floats> wanted = given;
      sum_canonically(places(wanted), count);
      for (const auto& stream : streams) {
        std::vector<Floats> is = given;
        sum_canonically(*stream, places(is), count);
        stream->synchronize();
        EXPECT_TRUE(is == wanted) << size << " parts of " << count;
      }
    }
  }
  std::vector<Floats> many = noise(9, 1);
  EXPECT_THROW(sum_canonically(*streams[0], places(many), 1), Error);
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
