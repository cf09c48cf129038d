// The speed in the reports of a device that does steps before the host collects them, and the steps
// that a device has done.
#include "apps/run/training_clock.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <functional>

#include "apps/step/step_slots.h"
#include "apps/tell/metrics.h"
#include "src/base/clock.h"
#include "tests/support/async_device.h"

namespace lockstep {
namespace {

constexpr int kAhead = 4, kSteps = 20;

/// The images per second, with one image per step, that each step's report contains; 0: none. A
/// report follows each step. The host enqueues a step in `host` seconds, the device needs `device`,
/// and step 10 is followed by an evaluation of 100 seconds.
std::vector<double> speeds(double host, double device) {
  TrainingClock clock;
  clock.begin(0, 0);
  double now = 0;
  std::vector<double> ends, result;  // when the device has done each step
  for (int enqueued = 1, collected = 0; enqueued <= kSteps; ++enqueued) {
    now += host;
    ends.push_back(std::max(now, ends.empty() ? 0 : ends.back()) + device);
    clock.enqueued();
    const bool all = enqueued == 10 || enqueued == kSteps;
    while (collected < enqueued - (all ? 0 : kAhead)) {
      const bool waited = ends[collected] > now;
      now = std::max(now, ends[collected]) + 1e-6;
      ++collected;
      const auto done =
          std::count_if(ends.begin(), ends.end(), [&](double end) { return end <= now; });
      const auto interval = clock.report(now, done, waited);
      result.push_back(interval ? static_cast<double>(interval->steps) / interval->seconds : 0);
    }
    if (enqueued != 10) continue;
    now += 100;
    clock.leave_out(100);
  }
  EXPECT_NEAR(clock.trained(now), ends.back() - 100, 0.01 * ends.back());
  return result;
}

TEST(TrainingClock, TheSpeedIsTheDevicesIfTheHostWaits) {
  for (const double speed : speeds(/*host=*/0.01, /*device=*/1)) EXPECT_NEAR(speed, 1, 0.05);
}

TEST(TrainingClock, StepsThatWereDoneBeforeTheyAreCollectedHaveNoSpeed) {
  const std::vector<double> all = speeds(/*host=*/1, /*device=*/0.01);
  ASSERT_EQ(all.size(), kSteps);
  for (const double speed : all) {
    if (speed > 0) EXPECT_NEAR(speed, 1, 0.21);  // the step that was just enqueued is not done
  }
  for (const int step : {7, 8, 9, 10, 17, 18, 19, 20})
    EXPECT_EQ(all[step - 1], 0) << "step " << step << " is collected with others";
  EXPECT_EQ(std::count(all.begin(), all.end(), 0), 8);
}

TEST(TrainingClock, ATimeWithoutAStepBelongsToTheNextInterval) {
  TrainingClock clock;
  clock.begin(0, 5);
  ASSERT_TRUE(clock.report(2, 7, true));
  clock.enqueued();
  EXPECT_FALSE(clock.report(3, 7, true));
  const auto interval = clock.report(6, 9, true);
  ASSERT_TRUE(interval);
  EXPECT_EQ(interval->seconds, 4);
  EXPECT_EQ(interval->steps, 2);
  EXPECT_EQ(clock.trained(6), 6);
  EXPECT_EQ(clock.first_done(), 5);
}

TEST(TrainingClock, AReportWithoutASpeedShowsNone) {
  StepReport report;
  report.step = 3;
  const auto shown = [&] {
    std::string text;
    for (const Metric& metric : metrics_of(report)) text += metric.name + " " + metric.text + "\n";
    return text;
  };
  for (const char* word :
       {"images_per_s", "samples/s", "seconds_per_batch", "exposed", "loader_wait"})
    EXPECT_EQ(shown().find(word), std::string::npos) << word;
  report.steps = report.samples = 2;
  report.seconds = 4;
  for (const char* word : {"images_per_s", "0 samples/s", "seconds_per_batch", "exposed 0.0%"})
    EXPECT_NE(shown().find(word), std::string::npos) << word;
}

TEST(StepSlots, CountStepsThatTheDeviceHasDone) {
  const auto device = make_async_device({.run_ahead = kAhead});
  const auto stream = device->stream();
  StepSlots slots(*device);
  std::atomic<int> go = 0;
  for (int step = 1; step <= 3; ++step) {
    stream->enqueue([&go, step] {
      while (go < step) sched_yield();
    });
    slots.next().done->record(*stream);
    slots.enqueued();
  }
  EXPECT_EQ(slots.done(), 0);
  go = 2;
  while (slots.done() < 2) sched_yield();
  EXPECT_EQ(slots.done(), 2);
  slots.collect(true);
  EXPECT_EQ(slots.done(), 1);
  go = 3;
  stream->synchronize();
  EXPECT_EQ(slots.done(), 2);
}

}  // namespace
}  // namespace lockstep
