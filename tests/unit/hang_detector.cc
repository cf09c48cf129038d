// The rank that is blamed for a hang, with records in the memory of this process and a simulated
// clock.
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <vector>

#include "collectives/watch/watchdog.h"

namespace lockstep {
namespace {

/// The records of a node of `size` ranks, each of which the test writes.
class Node {
 public:
  explicit Node(int size) : memory_(FlightRecorder::bytes(size) / sizeof(Line)) {
    for (int rank = 0; rank < size; ++rank) ranks_.emplace_back(memory_.data(), rank, size, rank);
  }
  RankRecorder& operator[](int rank) { return ranks_[rank].mine(); }
  const FlightRecorder& flight_recorder() const { return ranks_.front(); }

 private:
  struct alignas(64) Line {
    char bytes[64] = {};
  };
  std::vector<Line> memory_;
  std::deque<FlightRecorder> ranks_;
};

/// Seconds of silence until the result, with a look every 0.25 s; none within `most`.
struct Found {
  double after = -1;
  HangDetector::Verdict result;
};
Found wait(HangDetector& silence, const Node& node, double timeout, double most = 1000) {
  for (double seconds = 0; seconds <= most; seconds += 0.25) {
    if (const auto result = silence.judge(node.flight_recorder(), timeout, 0.25))
      return {seconds, *result};
  }
  return {};
}

TEST(HangDetector, NamesTheRankWithTheLowestStepEvenIfItMovedLast) {
  Node node(3);
  node[1].step(7);
  node[0].step(7);
  node[2].step(6);
  HangDetector silence(true);
  const Found found = wait(silence, node, 60);
  EXPECT_EQ(found.result.behind, 2);
  EXPECT_EQ(found.result.limit, 60);
  EXPECT_EQ(found.after, 60.25);
}

TEST(HangDetector, WithEqualStepsNamesTheRankWithTheOldestMark) {
  Node node(3);
  for (const int rank : {1, 2, 0}) node[rank].step(7);
  HangDetector silence(true);
  EXPECT_EQ(wait(silence, node, 60).result.behind, 1);
}

TEST(HangDetector, ARankThatWaitsForOthersIsNotBehindOneThatDoesNot) {
  Node node(3);
  for (const int rank : {0, 1, 2}) node[rank].step(7);
  node[0].waiting("bucket 0 of the reducer shared");
  node[1].collective(true);
  node[2].phase("backward");
  HangDetector silence(true);
  EXPECT_EQ(wait(silence, node, 60).result.behind, 2);
  node[1].collective(false);
  EXPECT_EQ(wait(silence, node, 60).result.behind, 2) << "rank 1 has a newer mark";
  node[2].collective(true);
  EXPECT_EQ(wait(silence, node, 60).result.behind, 1);
}

TEST(HangDetector, BlamesAStoppedRankThenOneOfADebugger) {
  Node node(3);
  for (const int rank : {0, 1, 2}) node[rank].step(rank);
  node[1].waiting("bucket 0 of the reducer tree");
  node[1].seen(Condition::traced);
  HangDetector several_nodes(false);
  EXPECT_EQ(wait(several_nodes, node, 60).result.behind, 1);
  EXPECT_EQ(wait(several_nodes, node, 60).result.limit, 60);
  node[2].seen(Condition::stopped);
  EXPECT_EQ(wait(several_nodes, node, 60).result.behind, 2);
}

TEST(HangDetector, IfAllWaitTheLimitForOtherNodesIsLonger) {
  for (const bool alone : {true, false}) {
    Node node(2);
    for (const int rank : {0, 1}) node[rank].waiting("bucket 0 of the reducer tree");
    HangDetector silence(alone);
    EXPECT_EQ(wait(silence, node, 60).result.limit, alone ? 60 : 600);
  }
}

TEST(HangDetector, CountsOnlyTheSilenceOfTheSameRank) {
  Node node(2);
  HangDetector silence(true);
  for (int second = 0; second < 1000; ++second) {
    node[second % 2].progress();
    EXPECT_FALSE(silence.judge(node.flight_recorder(), 5, 1));
    EXPECT_FALSE(silence.judge(node.flight_recorder(), 5, 1));
  }
}

TEST(HangDetector, APhaseCanOnlyLengthenTheLimit) {
  Node node(2);
  node[0].step(1);
  node[1].step(2);
  node[0].phase("checkpoint", 600);
  HangDetector silence(true);
  EXPECT_EQ(wait(silence, node, 60).after, 600.25);
  EXPECT_EQ(wait(silence, node, 6000, 10000).result.limit, 6000);
}

TEST(HangDetector, IgnoresRanksThatHaveLeft) {
  Node node(2);
  node[0].goodbye();
  node[1].step(3);
  HangDetector silence(true);
  EXPECT_EQ(wait(silence, node, 60).result.behind, 1);
  node[1].goodbye();
  EXPECT_EQ(wait(silence, node, 60).after, -1);
}

}  // namespace
}  // namespace lockstep
