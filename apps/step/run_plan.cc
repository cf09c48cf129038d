#include "apps/step/run_plan.h"

#include <algorithm>
#include <cmath>

#include "src/base/check.h"

namespace lockstep {
namespace {

/// The last step of `epochs` passes over the data, for a run at `start` with `batch` samples a
/// step. It may be below start.step, if the run has done more epochs already. Each start of a run
/// computes the same number: the samples that earlier steps had more than `batch` do not change.
std::int64_t steps_of(double epochs, std::int64_t dataset_size, const Position& start,
                      std::int64_t batch) {
  const std::int64_t more = start.samples - start.step * batch;
  return std::max<std::int64_t>(std::llround((epochs * dataset_size - more) / batch), 1);
}

/// Throws if a run reads more samples than can be counted.
void require_countable(double samples, std::int64_t dataset_size) {
  constexpr double kLastEpoch = 0x1p32;  // the keys of random numbers have 32 bits for it
  const double most = std::min<double>(kLastEpoch * dataset_size, kLastSample);
  if (samples >= most) {
    fail_usage(
        "the run would read {:.3g} samples; the limit is {:.3g}. Use fewer --steps or --epochs.",
        samples, most);
  }
}

/// The linear scaling rule. Source: Goyal et al., "Accurate, large minibatch SGD: training ImageNet
/// in 1 hour", 2017, 2.1 and 2.2.
void scale_rate(const ScheduleOptions& o, RunPlan& plan) {
  plan.rate = o.rate;
  if (o.rate_batch == 0) return;
  plan.rate_factor = static_cast<double>(plan.global_batch) / o.rate_batch;
  plan.rate.base *= plan.rate_factor;
  if (plan.rate_factor > 1 && o.rate.warmup_epochs == 0 && o.rate.schedule != "one_cycle") {
    plan.notes.push_back(
        fmt::format("the learning rate is scaled up {:.3g} times without a warm-up. Consider "
                    "--warmup-epochs 5.",
                    plan.rate_factor));
  }
}

void note_small_images(const ImageStages& stages, RunPlan& plan) {
  const double end = plan.epoch_at(plan.steps);
  if (stages.empty() || stages.back().epoch < end) return;
  plan.notes.push_back(fmt::format(
      "the run ends after {:.3g} epochs, before --small-images {} reaches images of all pixels",
      end, text_of(stages)));
}

/// Throws if the learning rate overflows, and notes a rate that users may not expect.
void check_rate(const ScheduleOptions& o, RunPlan& plan) {
  const double end = plan.epoch_at(plan.steps), last = plan.epoch_at(plan.steps - 1);
  // As a float, as the step gets it: a double may be finite where the float is not.
  const auto rate = static_cast<float>(learning_rate(plan.rate, last, end));
  if (!std::isfinite(rate)) {
    fail_usage("--lr-schedule {} overflows after {:.3g} epochs. Pass a smaller factor.",
               o.rate.text(), end);
  }
  if (o.rate.warmup_epochs > end) {
    plan.notes.push_back(fmt::format(
        "the run ends after {:.3g} of its {:g} epochs of warm-up, at a learning rate of {:.3g}",
        end, o.rate.warmup_epochs, rate));
  } else if (rate == 0) {
    plan.notes.emplace_back(
        "the learning rate is 0 before the run ends: the last steps learn nothing");
  }
  const RateOptions& r = plan.rate;
  if (r.has_end() && r.end > r.base) {
    plan.notes.push_back(fmt::format(
        "the learning rate rises during the run, because --lr-end {:g} is above its start, {:g}",
        r.end, r.base));
  }
  if (r.schedule == "exponential" && r.decay > 1) {
    plan.notes.push_back(fmt::format(
        "the learning rate rises during the run, because the factor of --lr-schedule {} is above 1",
        r.text()));
  }
}

/// Notes epochs of so few steps that the network hardly learns.
void note_few_steps(const ScheduleOptions& o, RunPlan& plan) {
  constexpr std::int64_t kPerEpoch = 10, kEnough = 1000, kLeastBatch = 8;
  // The largest power of two times the shards that leaves at least ten steps per epoch.
  std::int64_t batch = plan.shards;  // a smaller one that the shards divide
  while (batch < kLeastBatch || 2 * batch * kPerEpoch <= plan.dataset_size) batch *= 2;
  const bool few = plan.dataset_size < kPerEpoch * plan.global_batch && plan.steps < kEnough;
  if (o.steps > 0 || plan.start.step > 0 || !few || batch >= plan.global_batch) return;
  const auto all = static_cast<double>(plan.global_batch);
  plan.notes.push_back(fmt::format(
      "the run has only {} steps, {:.1f} per epoch. Consider a smaller --global-batch, "
      "such as {}{}.",
      plan.steps, plan.dataset_size / all, batch,
      o.rate_batch > 0 ? "" : fmt::format(", with {:.2g} times the --lr", batch / all)));
}

/// Notes that ranks wait for the one with the largest share.
void note_idle_ranks(RunPlan& plan) {
  constexpr double kEven = 0.97;
  const double even = balance(plan.shares);
  if (even >= kEven) return;
  const int ranks = plan.shares.ranks();
  plan.notes.push_back(fmt::format(
      "{} ranks compute {} of {} shards: on the mean they wait {:.0f} % of each step for the "
      "largest share. A new run with --shards {} would not wait.",
      ranks, plan.shares.text(), plan.shards, 100 * (1 - even), (plan.shards / ranks + 1) * ranks));
}

/// Notes that a recipe's batch does not fit the shards.
void note_fitted_batch(const ScheduleOptions& o, RunPlan& plan) {
  if (!o.fits_batch || plan.start.step > 0 || plan.global_batch == o.global_batch) return;
  plan.notes.push_back(
      fmt::format("the batch is {}, not {}, because {} shards must divide it. With --shards {} "
                  "fewer ranks give the same weights.",
                  plan.global_batch, o.global_batch, plan.shards, plan.shards));
}

}  // namespace

void RunPlan::share(const Shares& others, int rank) {
  shares = others;
  own_shards = static_cast<int>(shares.of(rank).count);
  first_shard = static_cast<int>(shares.of(rank).begin);
}

std::int64_t RunPlan::epoch_that_ends(std::int64_t done) const {
  const double before = std::floor(epoch_at(done - 1)), after = epoch_at(done);
  // A batch larger than the data set ends several epochs in one step. The last of them counts.
  if (std::floor(after) > before) return static_cast<std::int64_t>(std::floor(after));
  return done == steps ? static_cast<std::int64_t>(std::ceil(after)) : 0;
}

RunShape shape_of(const StepOptions& options, int ranks) {
  const ScheduleOptions& o = options.schedule;
  constexpr std::int64_t kLargest = std::int64_t{1} << 31;
  // Without options 128 samples are cut among the ranks. The limit is tested by divisions, because
  // the product may overflow.
  const std::int64_t batch = o.batch > 0 ? o.batch : std::max<std::int64_t>(128 / ranks, 1),
                     shards = o.shards > 0 ? o.shards : std::int64_t{ranks} * o.accumulate;
  const bool given = o.global_batch > 0;
  if (given ? o.global_batch > kLargest : batch > kLargest / ranks / o.accumulate) {
    const char* own = o.batch > 0 ? "--batch" : "--accumulate";
    fail_usage("the global batch exceeds the limit of {} samples. Use a smaller {}.", kLargest,
               given ? "--global-batch" : own);
  }
  if (shards > kMostShards) {
    fail_usage(
        "{} ranks with --accumulate {} have {} shards; the limit is {}. Use a smaller "
        "--accumulate.",
        ranks, o.accumulate, shards, kMostShards);
  }
  std::int64_t global = given ? o.global_batch : batch * ranks * o.accumulate;
  // Only the batch of a recipe is rounded. One that the user passes is kept, or refused in
  // plan_run().
  if (o.fits_batch) global = std::max<std::int64_t>((global + shards / 2) / shards, 1) * shards;
  return {o.seed, global, static_cast<int>(shards), options.device.threads};
}

RunPlan plan_run(const StepOptions& options, const RunShape& shape, int rank, int ranks,
                 std::int64_t dataset_size, const Position& start) {
  const ScheduleOptions& o = options.schedule;
  RunPlan plan;
  static_cast<RunShape&>(plan) = shape;
  const std::int64_t batch = plan.global_batch, shards = plan.shards;
  if (batch % shards != 0) {
    fail_usage(
        "a global batch of {} cannot be cut into {} equal shards. Use a multiple of {}, such as "
        "--global-batch {}.",
        batch, shards, shards, (batch / shards + 1) * shards);
  }
  plan.dataset_size = dataset_size;
  plan.start = start;
  plan.share(options.ranks.shares(plan.shards, ranks), rank);
  plan.shard_batch = batch / shards;
  if (options.ranks.shares_of_ranks.empty() && !options.ranks.tunes_shares) note_idle_ranks(plan);
  plan.sums_micro_batches = options.model.sync_bn && o.accumulate > 1;
  if (options.model.sync_bn && o.accumulate == 1) plan.shards_at_once = plan.own_shards;

  // First the epochs are tested: llround() has no defined result for a number beyond 64 bits. The
  // second test covers --steps, and the batch of the last step.
  require_countable(o.epochs * dataset_size, dataset_size);
  plan.steps = o.epochs > 0 ? steps_of(o.epochs, dataset_size, start, batch) : o.default_steps;
  if (o.steps > 0) plan.steps = o.steps;
  require_countable(start.samples + static_cast<double>(plan.steps - start.step) * batch,
                    dataset_size);
  scale_rate(o, plan);
  note_fitted_batch(o, plan);
  note_few_steps(o, plan);
  note_small_images(options.model.small_images, plan);
  if (plan.steps > start.step) check_rate(o, plan);
  return plan;
}

}  // namespace lockstep
