// Unreachable hosts, with a simulated clock.
#include <gtest/gtest.h>

#include "collectives/watch/heartbeat.h"

namespace lockstep {
namespace {

constexpr double kTick = 0.25;

/// A host, as another host sees it.
struct Pair {
  PeerReachability reachability;
  HostPace own;
  double timeout = 60;

  /// One look. `moves`: a rank of the own host moves. `answers`: the other host has answered.
  bool judge(bool moves, bool answers) {
    own.quiet = moves ? 0 : own.quiet + kTick;
    if (answers) reachability.answered();
    return reachability.judge(kTick, own, timeout);
  }
  /// Seconds until the verdict; -1 without one within `most`.
  double wait(bool moves, bool answers, double most = 2000) {
    for (double seconds = kTick; seconds <= most; seconds += kTick)
      if (judge(moves, answers)) return seconds;
    return -1;
  }
};

TEST(PeerReachability, NamesAHostWhenAnswersAndProgressStopTogether) {
  for (const double timeout : {5.0, 60.0, 600.0}) {
    Pair pair;
    pair.timeout = timeout;
    EXPECT_EQ(pair.wait(true, true, 10), -1);
    EXPECT_EQ(pair.wait(false, false), 1.5 * timeout);
    EXPECT_LT(PeerReachability::limit(timeout), 2 * timeout);
  }
}

TEST(PeerReachability, AllowsAnOutageWithRepeatedPackets) {
  Pair pair;
  EXPECT_EQ(pair.wait(true, true, 10), -1);
  EXPECT_EQ(pair.wait(false, false, 2 * 0.7 * pair.timeout), -1);
  EXPECT_EQ(pair.wait(false, true, 10), -1);
  EXPECT_EQ(pair.wait(false, false), 90) << "the count starts again";
}

TEST(PeerReachability, DoesNotNameASlowHost) {
  Pair pair;
  EXPECT_EQ(pair.wait(false, true), -1) << "it computes, evaluates or waits for a disk";
  EXPECT_FALSE(pair.reachability.suspect(pair.timeout));
}

TEST(PeerReachability, WaitsWhileTheOwnHostStillComputes) {
  Pair pair;
  pair.judge(true, true);
  EXPECT_EQ(pair.wait(true, false, 300), -1);
  EXPECT_TRUE(pair.reachability.suspect(pair.timeout));
  EXPECT_EQ(pair.wait(false, false), 30.25) << "a third of the limit later";
}

TEST(PeerReachability, NeverNamesAHostThatHasNotAnswered) {
  Pair pair;
  EXPECT_EQ(pair.wait(false, false), -1) << "a firewall drops the heartbeat from the start";
  EXPECT_FALSE(pair.reachability.suspect(pair.timeout));
}

TEST(PeerReachability, NeverNamesAHostWhoseHeartbeatStoppedWhileStepsWentOn) {
  Pair pair;
  pair.judge(true, true);
  for (int second = 0; second < 60; ++second) {
    if (second % 10 == 0) ++pair.own.step;
    EXPECT_FALSE(pair.judge(true, false));
    EXPECT_EQ(pair.wait(true, false, 1 - kTick), -1);
  }
  EXPECT_EQ(pair.wait(false, false), -1) << "then an evaluation takes long";
  EXPECT_FALSE(pair.reachability.suspect(pair.timeout));
}

TEST(PeerReachability, NamesAHostAgainThatHasAnsweredAfterAnOutage) {
  Pair pair;
  pair.judge(true, true);
  EXPECT_EQ(pair.wait(false, false, 50), -1);
  for (int step = 0; step < 5; ++step) {  // MPI's packets are repeated before the heartbeat's
    ++pair.own.step;
    EXPECT_EQ(pair.wait(true, false, 1), -1);
  }
  pair.judge(true, true);
  EXPECT_EQ(pair.wait(false, false), 90);
}

TEST(PeerReachability, NamesAHostEvenIfStepsStillEndedAfterTheCut) {
  Pair pair;
  pair.judge(true, true);
  EXPECT_EQ(pair.wait(true, false, 40), -1);
  for (int step = 0; step < 2; ++step) {
    ++pair.own.step;
    EXPECT_EQ(pair.wait(true, false, 1), -1);
  }
  EXPECT_NE(pair.wait(false, false), -1);
}

TEST(PeerReachability, NeverNamesAHostThatClosedTheConnection) {
  Pair pair;
  pair.judge(true, true);
  pair.reachability.give_up();
  EXPECT_EQ(pair.wait(false, false), -1);
}

TEST(PeerReachability, AShortTimeoutLeavesTimeForLostPackets) {
  EXPECT_EQ(PeerReachability::limit(0.1), 3);
}

TEST(PeerReachability, AnAnsweredProbeDoublesTheTimeOfTheConnection) {
  Pair pair;
  EXPECT_EQ(pair.wait(true, true, 10), -1);
  EXPECT_EQ(pair.wait(false, false, 60), -1);
  pair.reachability.probed();
  EXPECT_EQ(pair.wait(false, false, 100), -1) << "TCP has not repeated its packet yet";
  EXPECT_NE(pair.wait(false, false, 30), -1) << "new connections alone do not help MPI";
  pair.reachability.answered();
  EXPECT_EQ(pair.wait(false, false), 90.25) << "the next outage has the time of the first";
}

}  // namespace
}  // namespace lockstep
