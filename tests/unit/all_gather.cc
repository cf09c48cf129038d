// The all-gather as a schedule, run without MPI.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "collectives/schedule.h"

namespace lockstep {
namespace {

/// Carries out the rounds of all ranks, which know the block that begins at n if their set contains
/// n. Returns the messages between hosts: of all ranks, and the most that a rank gets.
std::pair<int, int> gather(const std::vector<std::uint64_t>& hosts,
                           const std::vector<Range>& blocks) {
  const auto ranks = static_cast<int>(hosts.size());
  std::vector<std::set<std::int64_t>> known;
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < ranks; ++rank) {
    known.push_back({blocks[rank].begin});
    schedules.push_back(all_gather(hosts, blocks, rank));
    EXPECT_EQ(schedules.back().count, blocks.back().end());
  }
  int between = 0, most = 0;
  for (std::size_t round = 0; round < schedules[0].rounds.size(); ++round) {
    std::map<std::pair<int, int>, std::vector<Range>> sent, received;
    const auto before = known;
    for (int rank = 0; rank < ranks; ++rank) {
      int from_others = 0;
      for (const Action& action : schedules[rank].rounds[round]) {
        EXPECT_NE(action.peer, rank);
        if (action.verb == Verb::send) {
          EXPECT_TRUE(before[rank].contains(action.range.begin)) << "a block that is not there";
          sent[{rank, action.peer}].push_back(action.range);
          between += hosts[rank] != hosts[action.peer];
        } else {
          EXPECT_EQ(action.verb, Verb::copy);
          from_others += hosts[rank] != hosts[action.peer];
          EXPECT_TRUE(known[rank].insert(action.range.begin).second) << "twice";
          received[{action.peer, rank}].push_back(action.range);
        }
      }
      most = std::max(most, from_others);
    }
    EXPECT_EQ(sent, received) << "in the same order";
  }
  for (const auto& blocks_of : known) EXPECT_EQ(static_cast<int>(blocks_of.size()), ranks);
  return {between, most};
}

TEST(AllGather, EachHostGetsEachBlockOnce) {
  const std::vector<Range> blocks{{0, 3}, {3, 1}, {4, 5}, {9, 2}, {11, 2}};
  using Counts = std::pair<int, int>;
  EXPECT_EQ(gather({0}, {{0, 3}}), Counts(0, 0));
  EXPECT_EQ(gather({0, 0, 0, 0, 0}, blocks), Counts(0, 0));
  EXPECT_EQ(gather({0, 1, 2, 3, 4}, blocks), Counts(5 * 4, 4));
  EXPECT_EQ(gather({0, 0, 2, 2, 2}, blocks), Counts(5, 2)) << "hosts of two and three ranks";
  EXPECT_EQ(gather({0, 1, 0, 1, 4}, blocks), Counts(5 * 2, 4)) << "hosts whose ranks alternate";
}

}  // namespace
}  // namespace lockstep
