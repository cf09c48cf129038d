// Learning-rate schedules against their closed forms, at their corners and in between.
#include "net/rate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/expect_error.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

RateOptions with(const char* schedule) {
  RateOptions options;
  options.schedule = schedule;
  options.base = 0.5;
  return options;
}

TEST(Rate, ConstantIsTheBase) {
  for (const double epoch : {0.0, 0.5, 10.0, 99.0})
    EXPECT_EQ(learning_rate(with("constant"), epoch, 10), 0.5);
}

TEST(Rate, TheTutorialDecaysTenfoldEvery350Epochs) {
  RateOptions tutorial;  // the defaults
  EXPECT_EQ(learning_rate(tutorial, 0, 1000), 0.1);
  EXPECT_EQ(learning_rate(tutorial, 349.999, 1000), 0.1);
  EXPECT_NEAR(learning_rate(tutorial, 350, 1000), 0.01, 1e-15);
  EXPECT_NEAR(learning_rate(tutorial, 699.9, 1000), 0.01, 1e-15);
  EXPECT_NEAR(learning_rate(tutorial, 700, 1000), 0.001, 1e-15);
}

TEST(Rate, ExponentialWithoutStaircaseIsSmooth) {
  RateOptions options = with("exponential");
  options.decay = 0.25;
  options.decay_epochs = 2;
  options.smooth = true;
  EXPECT_EQ(learning_rate(options, 0, 10), 0.5);
  EXPECT_NEAR(learning_rate(options, 1, 10), 0.25, 1e-15);
  EXPECT_NEAR(learning_rate(options, 3, 10), 0.0625, 1e-15);
}

TEST(Rate, CosineAndLinearEndAtTheEndRateAndStayThere) {
  for (const char* schedule : {"cosine", "linear"}) {
    RateOptions options = with(schedule);
    options.end = 0.1;
    EXPECT_EQ(learning_rate(options, 0, 8), 0.5) << schedule;
    EXPECT_NEAR(learning_rate(options, 4, 8), 0.3, 1e-15) << schedule;
    EXPECT_NEAR(learning_rate(options, 8, 8), 0.1, 1e-15) << schedule;
    EXPECT_NEAR(learning_rate(options, 9, 8), 0.1, 1e-15) << schedule;
  }
  EXPECT_NEAR(learning_rate(with("cosine"), 2, 8), 0.25 * (1 + std::sqrt(0.5)), 1e-15);
  EXPECT_NEAR(learning_rate(with("linear"), 2, 8), 0.375, 1e-15);
}

TEST(Rate, OneCycleMatchesPyTorch) {
  const RateOptions options = with("one_cycle");
  EXPECT_NEAR(learning_rate(options, 0, 10), 0.02, 1e-15);
  EXPECT_NEAR(learning_rate(options, 1.5, 10), 0.26, 1e-15) << "half-way up";
  EXPECT_NEAR(learning_rate(options, 3, 10), 0.5, 1e-15);
  EXPECT_NEAR(learning_rate(options, 6.5, 10), (0.5 + 2e-6) / 2, 1e-15) << "half-way down";
  EXPECT_NEAR(learning_rate(options, 10, 10), 2e-6, 1e-15);
  EXPECT_NEAR(learning_rate(options, 11, 10), 2e-6, 1e-15);
}

TEST(Rate, WarmUpRisesLinearlyUnderEverySchedule) {
  for (const RateEntry& entry : rate_schedules()) {
    RateOptions options = with(std::string(entry.name).c_str());
    const double after = learning_rate(options, 1, 10);
    options.warmup_epochs = 2;
    EXPECT_EQ(learning_rate(options, 0, 10), 0) << entry.name;
    EXPECT_NEAR(learning_rate(options, 1, 10), after / 2, 1e-15) << entry.name;
    options.warmup_epochs = 1;
    EXPECT_EQ(learning_rate(options, 1, 10), after) << entry.name;
  }
}

TEST(Rate, DependsOnTheEndOnlyIfNeeded) {
  // So that a run that is made longer goes on as it was: --steps 8, then --steps 20.
  for (const char* schedule : {"constant", "exponential"}) {
    EXPECT_EQ(learning_rate(with(schedule), 3.7, 8), learning_rate(with(schedule), 3.7, 20));
  }
}

TEST(Rate, RefusesAnUnknownSchedule) {
  expect_error({"cosin\"", "cosine\""}, [] { learning_rate(with("cosin"), 0, 1); });
}

}  // namespace
}  // namespace lockstep
