// The numbers of a run.
#include "apps/step/run_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "apps/record/progress.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"
#include "tests/support/pattern.h"

namespace lockstep {
namespace {

constexpr std::int64_t kSamples = 12800;
/// Which of how many ranks.
struct RankOf {
  int rank = 0, ranks = 1;
};

RunPlan plan(const Options& options, const Position& start = {}, RankOf of = {}) {
  return plan_run(options, shape_of(options, of.ranks), of.rank, of.ranks, kSamples, start);
}

/// The error of plan().
std::string error_with(const Options& options, RankOf of = {}) {
  return error_of([&] { plan(options, {}, of); });
}

/// The notes of plan(), in one text.
std::string notes_with(const Options& options) {
  return fmt::format("{}", fmt::join(plan(options).notes, "; "));
}

TEST(RunPlan, SharesTheShardsOutInOrder) {
  Options options;
  options.schedule.shards = 12;
  options.schedule.global_batch = 120;
  for (int rank = 0; rank < 4; ++rank) {
    const RunPlan p = plan(options, {}, {rank, 4});
    EXPECT_EQ(p.global_batch, 120);
    EXPECT_EQ(p.shards, 12);
    EXPECT_EQ(p.shard_batch, 10);
    EXPECT_EQ(p.own_shards, 3);
    EXPECT_EQ(p.first_shard, 3 * rank);
    EXPECT_TRUE(p.notes.empty());
  }
  const RunPlan uneven = plan(options, {}, {4, 5});
  EXPECT_EQ(uneven.shares.shards(), 12);
  EXPECT_EQ(uneven.own(), uneven.shares.of(4));
  EXPECT_TRUE(mentions(uneven.notes.front(), {"5 ranks", "of 12 shards", "20 %", "--shards 15"}));
}

TEST(RunPlan, TakesTheSharesOfTheOptions) {
  Options options;
  options.schedule.shards = 12;
  options.schedule.global_batch = 120;
  options.ranks.shares_of_ranks = parse_shares("1,2,9");
  EXPECT_EQ(plan(options, {}, {2, 3}).own(), (Range{3, 9}));
  EXPECT_TRUE(mentions(error_with(options, {0, 2}), {"3 numbers", "2 ranks"}));
  options.ranks.shares_of_ranks = parse_shares("1,2,8");
  EXPECT_TRUE(mentions(error_with(options, {0, 3}), {"adds up to 11 of 12 shards"}));
  EXPECT_TRUE(
      mentions(error_of([] { parse_shares("1,0,2"); }), {"--shares: 0 is not a number from 1"}));
  EXPECT_TRUE(mentions(error_of([] { parse_shares("1,,2"); }), {"--shares"}));
  EXPECT_TRUE(parse_shares("equal").empty());
}

TEST(RunPlan, HasOneShardPerRankAndABatchOf128UnlessToldOtherwise) {
  EXPECT_EQ(plan({}, {}, {0, 4}).global_batch, 128);
  EXPECT_EQ(plan({}, {}, {0, 3}).global_batch, 126) << "a whole number on each";
  EXPECT_EQ(plan({}, {}, {0, 200}).global_batch, 200) << "one on each at least";
  EXPECT_EQ(plan({}, {}, {2, 4}).first_shard, 2);
  Options options;
  options.schedule.batch = 10;
  EXPECT_EQ(plan(options, {}, {0, 3}).global_batch, 30);
}

TEST(RunPlan, RefusesBatchesThatCannotBeCutEvenly) {
  Options options;
  options.schedule.shards = 6;
  EXPECT_TRUE(mentions(error_with(options, {0, 7}), {"7 ranks", "not 6", "at most 6 ranks"}));
  options.schedule.global_batch = 100;
  EXPECT_TRUE(mentions(error_with(options, {0, 3}), {"batch of 100", "--global-batch 102"}));
  options.schedule.shards = 0;
  options.schedule.global_batch = (std::int64_t{1} << 31) + 1;
  EXPECT_TRUE(mentions(error_with(options), {"--global-batch"}));
  options.schedule.global_batch = 0;
  options.schedule.batch = std::int64_t{1} << 31;
  EXPECT_TRUE(mentions(error_with(options, {0, 2}), {"--batch"}));
}

TEST(RunPlan, TheBatchOfARecipeBecomesTheNearestMultipleOfTheShards) {
  Options options;
  options.schedule.global_batch = 48;
  options.schedule.fits_batch = true;
  const auto batch_on = [&](int ranks) { return plan(options, {}, {0, ranks}).global_batch; };
  for (const int ranks : {1, 2, 3, 4, 6, 8, 12, 16, 24, 48}) EXPECT_EQ(batch_on(ranks), 48);
  EXPECT_EQ(notes_with(options), "");
  EXPECT_EQ(batch_on(5), 50);
  EXPECT_EQ(batch_on(7), 49);
  EXPECT_EQ(batch_on(11), 44);
  EXPECT_EQ(batch_on(100), 100);
  options.schedule.shards = 10;
  EXPECT_EQ(batch_on(2), 50) << "as on ten ranks";
  EXPECT_TRUE(mentions(notes_with(options), {"50, not 48", "--shards 10"}));
}

TEST(RunPlan, RefusesMoreThanAMillionShards) {
  Options options;
  options.schedule.accumulate = 1 << 20;
  const RankOf last{1, 2};
  for (const std::int64_t global_batch : {std::int64_t{0}, std::int64_t{1} << 31}) {
    options.schedule.global_batch = global_batch;
    EXPECT_TRUE(mentions(error_with(options, last), {"2097152 shards", "--accumulate"}));
  }
}

TEST(RunPlan, ShardsGoSideBySideForBatchNormsOfTheWholeBatch) {
  Options options;
  options.schedule.shards = 12;
  options.schedule.global_batch = 120;
  EXPECT_EQ(plan(options, {}, {1, 4}).shards_at_once, 1);
  options.model.sync_bn = true;
  EXPECT_EQ(plan(options, {}, {1, 4}).shards_at_once, 3);
  options.schedule.shards = 0;
  options.schedule.accumulate = 3;
  options.schedule.global_batch = 120;
  EXPECT_EQ(plan(options, {}, {1, 4}).shards_at_once, 1) << "each accumulated batch by itself";
  options.schedule.shards = 12;  // of a checkpoint
  EXPECT_EQ(plan(options, {}, {1, 4}).shards_at_once, 1);
}

TEST(RunPlan, RefusesARunLongerThanCanBeCounted) {
  Options options;
  options.schedule.steps = std::int64_t{1} << 62;
  EXPECT_TRUE(mentions(error_with(options), {"limit"}));
  options.schedule.steps = 0;
  options.schedule.epochs = 0x1p40;
  EXPECT_TRUE(mentions(error_with(options), {"limit"}));
}

TEST(RunPlan, EpochsCountSamplesWhateverTheBatchWas) {
  const Position start{10, 1200, 0, 1};
  Options options;
  options.schedule.epochs = 1;
  options.schedule.global_batch = 120;
  EXPECT_EQ(plan(options, start).steps, 107);  // 12800 / 120
  options.schedule.global_batch = 240;
  EXPECT_EQ(plan(options, start).steps, 10 + 48);  // the other 11600, 240 at a time
  EXPECT_EQ(plan(options, start).epoch_at(10), 1200.0 / kSamples);
  EXPECT_EQ(plan(options, start).epoch_at(58), 1200.0 / kSamples + 48 * 240.0 / kSamples);
  options.schedule.epochs = 0.05;
  EXPECT_EQ(plan(options, start).steps, 10 - 2) << "560 samples fewer than are done";
}

/// A run that is stopped after any step plans the same run when it resumes.
TEST(RunPlan, IsTheSameAfterEveryStep) {
  Options options;
  const auto plan_of = [&](std::int64_t samples, std::int64_t batch, const Position& start) {
    options.schedule.global_batch = batch;
    return plan_run(options, shape_of(options, 1), 0, 1, samples, start);
  };
  const auto expect_same = [&](const RunPlan& first, std::int64_t batch) {
    const std::int64_t last = first.steps, size = first.dataset_size;
    for (std::int64_t step = first.start.step; step <= last;
         step += std::max<std::int64_t>(last / 40, 1)) {
      const auto samples = first.start.samples + (step - first.start.step) * batch;
      const RunPlan again = plan_of(size, batch, {step, samples, samples / size, 1});
      ASSERT_EQ(again.steps, last)
          << size << " samples, batch " << batch << ", epochs " << options.schedule.epochs << ", "
          << step << " steps of " << samples << " samples done";
      ASSERT_EQ(again.epoch_at(last), first.epoch_at(last));
      ASSERT_EQ(again.epoch_that_ends(last), first.epoch_that_ends(last));
    }
    const auto samples = first.start.samples + (last - first.start.step) * batch;
    ASSERT_EQ(plan_of(size, batch, {last, samples, samples / size, 1}).steps, last) << "complete";
  };
  for (const double epochs : {0.01, 0.1, 0.3, 0.57, 1.0, 1.5, 2.7, 8.0}) {
    options.schedule.epochs = epochs;
    for (std::int64_t samples = 1; samples < 1500; samples += 1 + samples / 11) {
      for (const std::int64_t batch : {1, 2, 3, 8, 20, 32, 100, 2000}) {
        const RunPlan first = plan_of(samples, batch, {});
        ASSERT_NO_FATAL_FAILURE(expect_same(first, batch));
        // It goes on with another batch.
        const std::int64_t half = first.steps / 2;
        for (const std::int64_t other :
             {batch * 2, batch + 3, std::max<std::int64_t>(batch / 2, 1)}) {
          const Position start{half, half * batch, half * batch / samples, 1};
          const RunPlan changed = plan_of(samples, other, start);
          if (changed.steps <= half) continue;
          ASSERT_NO_FATAL_FAILURE(expect_same(changed, other));
        }
      }
    }
  }
  options.schedule.epochs = 8;  // 134.5 steps
  EXPECT_EQ(plan_of(538, 32, {}).steps, 135);
}

RunProgress read_progress(const std::string& text, std::int64_t step) {
  return RunProgress::from({{step}, {{kProgress, text}}});
}

TEST(RunProgress, ALossOfNanIsNeverTheBest) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  ReportOptions options;
  options.target = 60;
  options.patience = 2;
  RunProgress progress;
  progress.evaluated({{1, 0.9}, "accuracy", 0.9, kNan}, 1);
  EXPECT_FALSE(progress.best.known() || progress.reached(options) || progress.gave_up(options));
  progress.evaluated({{2, 0.5}, "accuracy", 0.5, 3.0}, 1);
  EXPECT_EQ(progress.best.step, 2);
  progress.evaluated({{3, 0.8}, "accuracy", 0.8, kNan}, 1);
  EXPECT_EQ(progress.best.step, 2);
  EXPECT_FALSE(progress.over(options));
  EXPECT_EQ(read_progress(progress.text(), 3), progress);
  EXPECT_EQ(progress.reason(options), "");
  progress.evaluated({{4, 0.9}, "accuracy", 0.9, kNan}, 1);
  EXPECT_TRUE(progress.gave_up(options));
  EXPECT_EQ(progress.reason(options), "no better accuracy in 2 evaluations");
  progress.evaluated({{5, 0.7}, "accuracy", 0.7, 1e30}, 1);
  EXPECT_EQ(progress.reason(options), "accuracy 60 % is reached");
  EXPECT_TRUE(progress.reached(options));
  EXPECT_EQ(progress.best.step, 5);
}

BestEvaluation measured(std::int64_t step, const std::string& by, double value, double loss) {
  return {{step, 0.5}, by, value, loss};
}

TEST(RunProgress, BestChoosesTheMeasure) {
  ReportOptions options;
  options.patience = 2;
  RunProgress progress;
  progress.evaluated(measured(1, "loss", 0.9, 0.9), 1);
  progress.evaluated(measured(2, "loss", 0.7, 0.7), 1);
  progress.evaluated(measured(3, "loss", 0.8, 0.8), 1);
  EXPECT_EQ(progress.best.step, 2) << "a lower loss is better";
  progress = {};
  progress.evaluated(measured(1, "f1", 0.7, 0.9), 1);
  progress.evaluated(measured(2, "f1", 0.7, 0.8), 1);
  EXPECT_EQ(progress.best.step, 2) << "the smaller loss";
  EXPECT_EQ(progress.since_best, 1) << "an equal value needs patience";
  progress.evaluated(measured(3, "f1", 0.7, 0.8), 1);
  EXPECT_EQ(progress.best.step, 2) << "the earlier one";
  EXPECT_TRUE(progress.gave_up(options));
  EXPECT_EQ(read_progress(progress.text(), 3), progress);
  progress.evaluated(measured(4, "accuracy", 0.1, 3), 1);
  EXPECT_EQ(progress.best.step, 4) << "another measure begins again";
}

TEST(RunProgress, RefusesWhatNoRunWrites) {
  EXPECT_EQ(RunProgress::from({}), RunProgress()) << "a file without a training";
  expect_error({"earlier version"}, [] { RunProgress::from({{40}, {{"best", "top-1 0.2"}}}); });
  RunProgress progress{.since_best = 2, .tested = {40, 0.5}};
  progress.evaluated(measured(40, "f1", 0.25, 0.1), 1);
  const std::string text = progress.text();
  EXPECT_EQ(read_progress(text, 40), progress);
  const auto changed = [&](const std::string& part, const std::string& other) {
    return replaced(text, part, other);
  };
  for (const std::string& damaged :
       {text + "1", std::string("[]"), changed("\"f1\"", "\"f2\""), changed(":40", ":41"),
        changed("\"top1\":0.5", "\"top1\":1.5"), changed("\"tested\"", "\"other\""),
        changed("\"loss\"", "\"lost\"")}) {
    ASSERT_NE(damaged, text);
    EXPECT_THROW(read_progress(damaged, 40), std::exception) << damaged;
  }
}

TEST(RunProgress, KeepsTheBestOnes) {
  RunProgress progress;
  const double values[] = {0.1, 0.5, 0.3, 0.4, 0.2, 0.6};
  for (int i = 0; i < 6; ++i) progress.evaluated(measured(i, "f1", values[i], 1), 3);
  EXPECT_EQ(progress.best.step, 5);
  ASSERT_EQ(progress.next.size(), 2);
  EXPECT_EQ(progress.next[0].step, 1);
  EXPECT_EQ(progress.next[1].step, 3);
  EXPECT_TRUE(progress.is_among_best(3) && !progress.is_among_best(2));
  EXPECT_EQ(read_progress(progress.text(), 6), progress);
  progress.evaluated(measured(6, "f1", 0.05, 1), 1);
  EXPECT_TRUE(progress.next.empty()) << "--keep-best 1";
}

TEST(RunPlan, NotesAWarmUpThatDoesNotEnd) {
  Options options;
  options.schedule.steps = 10;
  EXPECT_EQ(notes_with(options), "");
  options.schedule.rate.warmup_epochs = 5;
  EXPECT_TRUE(mentions(notes_with(options), {"5 epochs of warm-up"}));
  EXPECT_TRUE(plan(options, {10, 1280, 0, 1}).notes.empty()) << "nothing is left to train";
}

TEST(RunPlan, NotesEpochsOfFewSteps) {
  const auto notes_of = [](std::int64_t images, std::int64_t batch, double epochs, int shards = 2,
                           const Position& start = {}) {
    Options options;
    options.schedule.epochs = epochs;
    options.schedule.global_batch = batch;
    options.schedule.shards = shards;
    const RunPlan plan = plan_run(options, shape_of(options, 1), 0, 1, images, start);
    return fmt::format("{}", fmt::join(plan.notes, "; "));
  };
  EXPECT_TRUE(mentions(notes_of(160, 128, 30),
                       {"38 steps", "1.2 per epoch", "--global-batch", "16, with 0.12 times"}));
  EXPECT_TRUE(mentions(notes_of(1000, 256, 30), {"117 steps", "64, with 0.25"}));
  EXPECT_TRUE(mentions(notes_of(160, 120, 30, 12), {"12, with 0.1"})) << "shards of one size";
  EXPECT_EQ(notes_of(160, 16, 30), "") << "ten steps per epoch";
  EXPECT_EQ(notes_of(160, 128, 1000), "") << "1250 steps";
  EXPECT_EQ(notes_of(40, 8, 30), "") << "a batch that is small already";
  EXPECT_EQ(notes_of(50000, 128, 0.01), "") << "a part of an epoch";
  EXPECT_EQ(notes_of(160, 128, 30, 2, {1, 128, 0, 1}), "") << "a run that resumes keeps its batch";
}

TEST(RunPlan, NotesALearningRateThatRises) {
  Options options;
  options.schedule.steps = 10;
  const auto with = [&](const char* schedule) {
    options.schedule.rate.schedule = schedule;
    return notes_with(options);
  };
  options.schedule.rate = {.base = 0.1, .decay = 2, .end = 0.2};
  for (const char* schedule : {"cosine", "linear"})
    EXPECT_TRUE(mentions(with(schedule), {"--lr-end 0.2"})) << schedule;
  EXPECT_TRUE(mentions(with("exponential"), {"--lr-schedule exponential:2@"}));
  for (const char* schedule : {"constant", "one_cycle"}) EXPECT_EQ(with(schedule), "");
  options.schedule.rate = {.base = 0.1, .decay = 1, .end = 0.1};
  for (const char* schedule : {"cosine", "linear", "exponential"}) EXPECT_EQ(with(schedule), "");
}

TEST(RunPlan, ScalesTheRateWithTheGlobalBatchAndAsksForAWarmUp) {
  Options options;
  options.schedule.steps = 10;
  options.schedule.rate.base = 0.25;
  options.schedule.global_batch = 512;
  EXPECT_EQ(plan(options).rate.base, 0.25) << "as it stands";
  options.schedule.rate_batch = 128;
  EXPECT_EQ(plan(options).rate.base, 1);
  EXPECT_EQ(plan(options).rate_factor, 4);
  EXPECT_TRUE(mentions(notes_with(options), {"4 times", "--warmup-epochs"}));
  options.schedule.rate.schedule = "one_cycle";
  EXPECT_TRUE(plan(options).notes.empty()) << "it warms up by itself";
  options.schedule.rate.schedule = "constant";
  options.schedule.rate.warmup_epochs = 0.1;
  EXPECT_TRUE(plan(options).notes.empty());
  options.schedule.rate.warmup_epochs = 0;
  options.schedule.rate_batch = 1024;
  EXPECT_EQ(plan(options).rate.base, 0.125);
  EXPECT_TRUE(plan(options).notes.empty()) << "a smaller rate needs none";
}

}  // namespace
}  // namespace lockstep
