// The steps after which states are kept in memory: so many that they cost little of the time.
#include "apps/run/state_schedule.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

/// The steps until the next state is due after step 100.
std::int64_t steps_after(double cost, double step_seconds) {
  StateSchedule schedule;
  schedule.plan(100, 0, cost, step_seconds);
  for (std::int64_t step = 101;; ++step)
    if (schedule.is_due(step)) return step - 100;
}

TEST(StateSchedule, TheFirstStateFollowsTheFirstStep) {
  StateSchedule schedule;
  schedule.begin(40, 7);
  EXPECT_FALSE(schedule.is_due(40));
  EXPECT_TRUE(schedule.is_due(41));
  EXPECT_EQ(schedule.step_seconds(44, 9), 0.5);
}

TEST(StateSchedule, CheapStatesFollowAfterTheShortestInterval) {
  EXPECT_EQ(steps_after(0, 0.01), 20);
  EXPECT_EQ(steps_after(0.0005, 0.01), 20) << "0.1 s would be long enough";
}

TEST(StateSchedule, AStateCostsHalfAHundredthOfTheTime) {
  EXPECT_EQ(steps_after(0.004, 0.01), 80);
}

TEST(StateSchedule, AnEndWithoutWarningLosesASecondOrOneStep) {
  EXPECT_EQ(steps_after(0.1, 0.01), 100);
  EXPECT_EQ(steps_after(2, 0.3), 3);
  EXPECT_EQ(steps_after(2, 0.7), 1);
}

TEST(StateSchedule, LongStepsKeepEveryState) { EXPECT_EQ(steps_after(0.001, 3), 1); }

TEST(StateSchedule, AStepWithoutATimeHasALimit) { EXPECT_EQ(steps_after(0, 0), 200'000); }

}  // namespace
}  // namespace lockstep
