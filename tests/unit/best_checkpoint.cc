// The names of the best checkpoints: best.h5, and best-STEP.h5 with --keep-best above 1.
#include "apps/run/best_checkpoint.h"

#include <gtest/gtest.h>

#include "tests/support/files.h"

namespace lockstep {
namespace {

using Names = std::vector<std::string>;

/// The folder of a run whose evaluations have an accuracy. Each checkpoint contains its step.
class TestedRun {
 public:
  void evaluate(std::int64_t step, double accuracy, int keep) {
    const std::filesystem::path file = folder_ / checkpoint_name(step);
    std::ofstream(file) << step;
    progress_.evaluated({{step, accuracy}, "accuracy", accuracy, 1}, keep);
    for (int times = 0; times < 2; ++times)  // as after a kill
      if (progress_.is_among_best(step)) keep_best(file, step, progress_, keep);
    std::filesystem::remove(file);  // --keep
  }
  Names names() const { return folder_.names(); }
  std::string best() const { return contents(folder_ / kBestFile); }
  std::string of(std::int64_t step) const { return contents(folder_ / best_name(step)); }

 private:
  TemporaryDirectory folder_;
  RunProgress progress_;
};

TEST(BestCheckpoint, OneHasOneName) {
  TestedRun run;
  run.evaluate(1, 0.5, 1);
  run.evaluate(2, 0.7, 1);
  run.evaluate(3, 0.6, 1);
  EXPECT_EQ(run.names(), Names{"best.h5"});
  EXPECT_EQ(run.best(), "2");
}

TEST(BestCheckpoint, SeveralHaveTheirSteps) {
  TestedRun run;
  const double accuracy[] = {0.5, 0.7, 0.6, 0.1, 0.9};
  for (int step = 0; step < 5; ++step) run.evaluate(step, accuracy[step], 3);
  EXPECT_EQ(run.names(),
            (Names{"best-0000000001.h5", "best-0000000002.h5", "best-0000000004.h5", "best.h5"}));
  for (const int step : {1, 2, 4}) EXPECT_EQ(run.of(step), std::to_string(step));
  EXPECT_EQ(run.best(), "4");
  run.evaluate(5, 0.95, 1);
  EXPECT_EQ(run.names(), Names{"best.h5"}) << "--keep-best 1 since";
}

TEST(BestCheckpoint, AFormerBestGetsItsName) {
  TestedRun run;
  run.evaluate(1, 0.5, 1);
  run.evaluate(2, 0.7, 3);
  EXPECT_EQ(run.names(), (Names{"best-0000000001.h5", "best-0000000002.h5", "best.h5"}));
  EXPECT_EQ(run.of(1) + run.of(2) + run.best(), "122");
}

}  // namespace
}  // namespace lockstep
