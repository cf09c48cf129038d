// Any shares of the ranks, on any hosts, give the bits of the canonical order (schedule.h).
#include "collectives/shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "collectives/shard_sum.h"
#include "collectives/sum.h"
#include "src/base/random.h"
#include "tests/support/canonical_sum.h"
#include "tests/support/error_of.h"

namespace lockstep {
namespace {

using Floats = std::vector<float>;
constexpr std::int64_t kCount = 3;

/// The roots of a rank after its backward passes.
std::vector<Floats> rows_of_rank(const std::vector<Floats>& all, Range own) {
  const int shards = static_cast<int>(all.size());
  std::vector<Floats> rows(roots_of(own, shards).size(), Floats(kCount));
  std::vector<float*> places;
  for (Floats& row : rows) places.push_back(row.data());
  const auto device = make_cpu_device(1);
  const auto stream = device->stream();
  ShardSum sum(*device, places, kCount, own, shards);
  for (std::int64_t shard = 0; shard < own.count; ++shard) {
    rows.back() = all[static_cast<std::size_t>(own.begin + shard)];
    places.back() = rows.back().data();
    if (shard + 1 < own.count)
      sum.add(static_cast<int>(shard), {0, kCount}, *stream);
    else
      sum.finish({0, kCount}, *stream);
  }
  return rows;
}

/// Adds rows in place and keeps those that are left, as the ranks of a host do.
void fold_in_place(std::vector<Range>& subtrees, std::vector<Floats>& rows, int shards) {
  const Fold fold = Fold::of(subtrees, shards);
  std::vector<float*> places, results;
  for (Floats& row : rows) places.push_back(row.data());
  for (const int row : fold.left) results.push_back(places[row]);
  sum_rows(fold, places, results, kCount);
  std::vector<Floats> left;
  for (const int row : fold.left) left.push_back(rows[row]);
  rows = left;
  subtrees = subtrees_of(subtrees, shards);
}

/// Cuts `shards` at random.
Shares random_shares(int shards, int ranks, Random& random) {
  std::vector<int> counts(ranks, 1);
  for (int i = ranks; i < shards; ++i) ++counts[random.below(static_cast<std::uint32_t>(ranks))];
  return Shares(counts);
}

/// The sum of all ranks, each on a random one of `hosts`.
Floats sum_on_hosts(const std::vector<Floats>& all, const Shares& shares, int hosts,
                    Random& random) {
  const int shards = static_cast<int>(all.size());
  std::vector<std::vector<Range>> subtrees(hosts);
  std::vector<std::vector<Floats>> rows(hosts);
  for (int rank = 0; rank < shares.ranks(); ++rank) {
    const std::uint32_t host = random.below(static_cast<std::uint32_t>(hosts));
    for (const Range& root : roots_of(shares.of(rank), shards)) subtrees[host].push_back(root);
    for (const Floats& row : rows_of_rank(all, shares.of(rank))) rows[host].push_back(row);
  }
  std::vector<std::pair<Range, Floats>> left;
  for (int host = 0; host < hosts; ++host) {
    fold_in_place(subtrees[host], rows[host], shards);
    for (std::size_t i = 0; i < rows[host].size(); ++i)
      left.emplace_back(subtrees[host][i], rows[host][i]);
  }
  std::ranges::sort(left, {}, [](const auto& row) { return row.first.begin; });
  std::vector<Range> last;
  std::vector<Floats> values;
  for (const auto& [subtree, row] : left) {
    last.push_back(subtree);
    values.push_back(row);
  }
  fold_in_place(last, values, shards);
  EXPECT_EQ(values.size(), 1u);
  return values.front();
}

TEST(Shares, AnyOfUpTo33RanksOnAnyHostsGiveTheCanonicalSum) {
  Random random(1, Purpose::generate, 0, 0);
  for (const int shards : {1, 2, 3, 5, 12, 24, 33, 37, 60, 64}) {
    const std::vector<Floats> all = draw_parts(shards, kCount, random);
    const Floats expected = canonical_sum(all);
    for (int ranks = 1; ranks <= std::min(shards, 33); ++ranks) {
      const Shares even = choose_shares(shards, ranks),
                   other = random_shares(shards, ranks, random);
      for (const int hosts : {1, 2, 5}) {
        ASSERT_EQ(sum_on_hosts(all, even, hosts, random), expected) << even.text();
        ASSERT_EQ(sum_on_hosts(all, other, hosts, random), expected) << other.text();
      }
    }
  }
}

TEST(Shares, AreAsEvenAsPossibleWithFewRoots) {
  const auto expect = [](int shards, int ranks, std::size_t roots, double even) {
    const Shares shares = choose_shares(shards, ranks);
    std::size_t most = 0;
    for (const auto& own : Roots::of(shares).of_rank) most = std::max(most, own.size());
    EXPECT_EQ(shares.shards(), shards);
    EXPECT_EQ(shares.ranks(), ranks);
    EXPECT_LE(most, roots) << shards << " shards: " << shares.text();
    EXPECT_NEAR(balance(shares), even, 0.005) << shards << " shards: " << shares.text();
  };
  expect(12, 5, 2, 0.80);
  expect(12, 6, 1, 1);
  expect(12, 7, 1, 0.86);
  expect(12, 8, 1, 0.75);
  expect(24, 5, 3, 0.96);
  expect(24, 7, 2, 0.86);
  expect(24, 11, 2, 0.73);
  expect(60, 7, 4, 0.95);
  expect(60, 8, 3, 0.94);
  expect(64, 5, 5, 0.98);
  expect(64, 8, 1, 1);
  expect(1 << 14, 300, 14, 0.99);
}

TEST(Shares, FollowTheSpeedsOfTheRanks) {
  const auto shares = [](int shards, std::vector<double> speeds) {
    return choose_shares(shards, static_cast<int>(speeds.size()), speeds).counts();
  };
  EXPECT_EQ(shares(12, {2, 1}), (std::vector<int>{8, 4}));
  EXPECT_EQ(shares(12, {1, 2, 1}), (std::vector<int>{3, 6, 3}));
  EXPECT_EQ(shares(4, {1, 1e-9, 1}).at(1), 1) << "each rank has one";
  const std::vector<double> speeds{3, 2, 2};
  EXPECT_NEAR(balance(choose_shares(24, 3, speeds), speeds), 24 / 7.0 / 3.5, 1e-9);
}

TEST(Shares, NameTheNumberThatDoesNotFit) {
  EXPECT_TRUE(mentions(error_of([] { choose_shares(3, 4); }), {"4 ranks", "not 3", "at most 3"}));
  EXPECT_TRUE(mentions(error_of([] { Shares({2, 0}); }), {"rank 1 has no shard"}));
}

TEST(Roots, OfPowersOfTwoAreAddedByRank) {
  for (const int each : {1, 2, 4}) EXPECT_TRUE(Roots::of(choose_shares(8 * each, 8)).by_rank());
  EXPECT_TRUE(Roots::of(Shares({4, 4, 3})).by_rank()) << "the last is cut short";
  EXPECT_FALSE(Roots::of(choose_shares(12, 4)).by_rank());
  EXPECT_FALSE(Roots::of(Shares({2, 2, 2, 2, 2, 1, 1})).by_rank()) << "one each in another order";
}

}  // namespace
}  // namespace lockstep
