// Rows summed over shards and ranks have the bits of the dense sum in the canonical order, whatever
// rows each of them has.
#include "collectives/row_reducer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "collectives/sum.h"
#include "src/base/random.h"
#include "tests/mpi/world.h"
#include "tests/support/error_of.h"

namespace lockstep {
namespace {

constexpr std::int64_t kRows = 53, kWidth = 7;

/// What shard `shard` of all has at `step`: none, a few, or all of the rows.
SparseRows draw(int step, int shard) {
  Random random(1, Purpose::generate, static_cast<std::uint32_t>(step),
                static_cast<std::uint32_t>(shard));
  SparseRows rows(kRows, kWidth);
  const std::uint32_t odds = (step + shard) % 3 == 0 ? 0 : (step + shard) % 3 == 1 ? 5 : 100;
  for (std::int32_t number = kRows - 1; number >= 0; --number) {
    if (random.below(100) >= odds) continue;
    float* values = rows.row(number);
    for (std::int64_t i = 0; i < kWidth; ++i)
      values[i] = random.normal() * std::exp2(random.uniform(-12.0f, 12.0f));
  }
  return rows;
}

std::vector<float> dense(const SparseRows& rows) {
  std::vector<float> table(kRows * kWidth);
  for (std::size_t i = 0; i < rows.numbers().size(); ++i)
    std::copy_n(rows.values(i), kWidth, table.data() + rows.numbers()[i] * kWidth);
  return table;
}

/// Of all shards at `step`.
std::vector<float> canonical_sum(int step, int shards) {
  std::vector<std::vector<float>> all;
  std::vector<float*> parts;
  for (int shard = 0; shard < shards; ++shard) all.push_back(dense(draw(step, shard)));
  for (auto& part : all) parts.push_back(part.data());
  sum_canonically(parts, kRows * kWidth);
  return all.front();
}

class RowReducers : public testing::TestWithParam<int> {};

TEST_P(RowReducers, HaveTheBitsOfTheDenseSum) {
  const Comm comm = world().comm();
  const int own = GetParam(), shards = own * comm.size();
  RowReducer reducer(comm.duplicate(), kRows, kWidth, own, kRows);
  std::vector<float> table(kRows * kWidth);
  for (int step = 0; step < 9; ++step) {  // rows of one step are zeros in the next
    for (int shard = 0; shard < own; ++shard) {
      SparseRows rows = draw(step, comm.rank() * own + shard);
      reducer.take(shard, rows);
    }
    reducer.finish(table.data());
    const std::vector<float> wanted = canonical_sum(step, shards);
    EXPECT_EQ(std::memcmp(table.data(), wanted.data(), table.size() * sizeof(float)), 0)
        << "step " << step;
  }
}

TEST(RowReducer, TheNumbersOfRowsDiffer) {
  std::vector<std::size_t> counts;
  for (int shard = 0; shard < 3; ++shard) counts.push_back(draw(0, shard).numbers().size());
  EXPECT_EQ(counts[0], 0u);
  EXPECT_GT(counts[1], 0u);
  EXPECT_LT(counts[1], 20u);
  EXPECT_EQ(counts[2], static_cast<std::size_t>(kRows));
}

TEST(RowReducer, RefusesWrongNumbersAndRanksThatDisagree) {
  const Comm comm = world().comm().duplicate();
  const auto line = [&](std::int64_t rows, std::int64_t width, int shards, std::int64_t most) {
    return error_of([&] { RowReducer(comm, rows, width, shards, most); });
  };
  EXPECT_NE(line(-1, 7, 1, 1).find("-1 rows"), std::string::npos);
  EXPECT_NE(line(5, 0, 1, 1).find("0 elements"), std::string::npos);
  EXPECT_NE(line(5, 7, 0, 1).find("0 shards"), std::string::npos);
  EXPECT_NE(line(5, 7, 1, -1).find("-1 rows of a rank"), std::string::npos);
  if (comm.size() > 1) {
    const std::string differ = line(kRows, comm.rank() == 1 ? 8 : 7, 1, 5);
    EXPECT_NE(differ.find("\"width = 8\" here, \"width = 7\" on rank 0"), std::string::npos)
        << differ;
  }
  RowReducer reducer(comm, kRows, kWidth, 1, 1);
  SparseRows rows(kRows, kWidth);
  rows.row(3);
  rows.row(5);
  const std::string many = error_of([&] { reducer.take(0, rows); });
  EXPECT_NE(many.find("room for 1 rows"), std::string::npos) << many;
  EXPECT_EQ(many.find("internal error"), std::string::npos) << many;
}

INSTANTIATE_TEST_SUITE_P(Shards, RowReducers, testing::Values(1, 2, 4));

TEST(RowCost, FewRowsAreCheaperAndManyAreNot) {
  RowWork few{.rows = 30982, .width = 7, .ranks = 2, .places = 4800, .expected = 800};
  const Link gigabit{.latency = 50e-6, .bandwidth = 125e6};
  EXPECT_LT(cost_of_rows(few, &gigabit).rows, cost_of_rows(few, &gigabit).dense / 10);
  EXPECT_LT(cost_of_rows(few, nullptr).rows, cost_of_rows(few, nullptr).dense);
  RowWork many = few;
  many.ranks = 32;
  many.expected = 9600;
  many.places = 1 << 20;
  EXPECT_GT(cost_of_rows(many, &gigabit).rows, cost_of_rows(many, &gigabit).dense);
  EXPECT_GT(cost_of_rows(many, nullptr).rows, cost_of_rows(many, nullptr).dense);
}

}  // namespace
}  // namespace lockstep
