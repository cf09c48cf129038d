#include "apps/step/run_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/base/check.h"

namespace lockstep {
namespace {

/// Steps done at the end of `epochs` passes over the data, of a run that stands at `start` and goes
/// on with `batch` samples a step.
std::int64_t steps_of(double epochs, std::int64_t dataset_size, const Position& start,
                      std::int64_t batch) {
  const double left =
      epochs * static_cast<double>(dataset_size) - static_cast<double>(start.samples);
  // Fewer than start.step if the run has done more epochs already.
  return std::max<std::int64_t>(start.step + std::llround(left / static_cast<double>(batch)), 1);
}

/// Throws where a run to `samples` is longer than can be counted.
void require_countable(double samples, std::int64_t dataset_size) {
  constexpr double kLastEpoch =
      0x1p32;  // epochs number 32 bits of what random numbers are keyed by
  const double most =
      std::min(kLastEpoch * static_cast<double>(dataset_size), static_cast<double>(kLastSample));
  if (samples >= most) {
    fail_usage(
        "a run over {:.3g} samples is longer than can be counted, {:.3g}: use fewer --steps or "
        "--epochs",
        samples, most);
  }
}

/// The linear scaling rule. Source: Goyal et al., "Accurate, large minibatch SGD: training ImageNet
/// in 1 hour", 2017, 2.1 and 2.2.
void scale_rate(const StepOptions& o, RunPlan& plan) {
  plan.rate = o.schedule.rate;
  if (o.schedule.rate_batch == 0) return;
  plan.rate_factor =
      static_cast<double>(plan.global_batch) / static_cast<double>(o.schedule.rate_batch);
  plan.rate.base *= plan.rate_factor;
  if (plan.rate_factor > 1 && o.schedule.rate.warmup_epochs == 0 &&
      o.schedule.rate.schedule != "one_cycle") {
    plan.notes.push_back(
        fmt::format("a learning rate that is scaled up {:.3g} times wants a warm-up: "
                    "--warmup-epochs 5 is usual",
                    plan.rate_factor));
  }
}

/// Throws where the learning rate leaves all numbers, and notes where it is not what one expects.
void check_rate(const StepOptions& o, RunPlan& plan) {
  const double end = plan.epoch_at(plan.steps), last = plan.epoch_at(plan.steps - 1);
  const auto rate = static_cast<float>(learning_rate(plan.rate, last, end));
  if (!std::isfinite(rate)) {
    fail_usage(
        "--lr-decay {:g} every {:g} epochs grows beyond all numbers within {:.3g} epochs: use a "
        "smaller one",
        o.schedule.rate.decay, o.schedule.rate.decay_epochs, end);
  }
  if (o.schedule.rate.warmup_epochs > end) {
    plan.notes.push_back(fmt::format(
        "the run ends after {:.3g} of its {:g} epochs of warm-up, with a learning rate of {:.3g}",
        end, o.schedule.rate.warmup_epochs, rate));
  } else if (rate == 0) {
    plan.notes.push_back(
        "the learning rate is 0 before the run ends: the last steps learn nothing");
  }
  const RateOptions& r = plan.rate;
  if ((r.schedule == "cosine" || r.schedule == "linear") && r.end > r.base) {
    plan.notes.push_back(fmt::format(
        "the learning rate rises during the run, because --lr-end {:g} is above its start, {:g}",
        r.end, r.base));
  }
  if (r.schedule == "exponential" && r.decay > 1) {
    plan.notes.push_back(fmt::format(
        "the learning rate rises during the run, because --lr-decay {:g} is above 1", r.decay));
  }
}

}  // namespace

bool shares_subtrees(int ranks, int shards) {
  const int own = shards / ranks;
  return ranks == 1 || (own & (own - 1)) == 0;
}

std::int64_t global_batch_of(const StepOptions& o, std::int64_t ranks) {
  constexpr std::int64_t kLargest = std::int64_t{1} << 31;
  const std::int64_t batch =
      o.schedule.batch > 0 ? o.schedule.batch : std::max<std::int64_t>(128 / ranks, 1);
  const bool given = o.schedule.global_batch > 0;
  if (given ? o.schedule.global_batch > kLargest
            : batch > kLargest / ranks / o.schedule.accumulate) {
    fail_usage("a global batch of more than {} samples cannot be trained: use a smaller {}",
               kLargest,
               given                  ? "--global-batch"
               : o.schedule.batch > 0 ? "--batch"
                                      : "--accumulate");
  }
  return given ? o.schedule.global_batch : batch * ranks * o.schedule.accumulate;
}

RunPlan plan_run(const StepOptions& o, RankOf rank, std::int64_t dataset_size,
                 const Position& start) {
  const std::int64_t ranks = rank.ranks, shards = o.schedule.shards > 0
                                                      ? o.schedule.shards
                                                      : ranks * o.schedule.accumulate;
  RunPlan plan;
  plan.seed = o.schedule.seed;
  plan.threads = rank.threads;
  plan.dataset_size = dataset_size;
  plan.start = start;
  plan.global_batch = global_batch_of(o, ranks);
  constexpr std::int64_t kMostShards = std::numeric_limits<int>::max();
  if (shards > kMostShards) {
    fail_usage(
        "{} ranks with --accumulate {} have {} shards, but a run has at most {}. Use a smaller "
        "--accumulate.",
        ranks, o.schedule.accumulate, shards, kMostShards);
  }
  if (shards % ranks != 0) {
    fail_usage("--shards {} cannot be shared evenly by {} ranks: use a multiple of {}", shards,
               ranks, ranks);
  }
  if (plan.global_batch % shards != 0) {
    fail_usage(
        "a global batch of {} cannot be cut into {} equal shards: use a multiple of {}, for "
        "example --global-batch {}",
        plan.global_batch, shards, shards, (plan.global_batch / shards + 1) * shards);
  }
  plan.shards = static_cast<int>(shards);
  plan.own_shards = static_cast<int>(shards / ranks);
  plan.first_shard = plan.own_shards * rank.rank;
  plan.shard_batch = plan.global_batch / shards;
  if (o.model.sync_bn && o.schedule.accumulate == 1) plan.lanes = plan.own_shards;

  require_countable(o.schedule.epochs * static_cast<double>(dataset_size), dataset_size);
  plan.steps = o.schedule.steps > 0 ? o.schedule.steps
               : o.schedule.epochs > 0
                   ? steps_of(o.schedule.epochs, dataset_size, plan.start, plan.global_batch)
                   : o.schedule.default_steps;
  require_countable(
      static_cast<double>(plan.start.samples) + static_cast<double>(plan.steps - plan.start.step) *
                                                    static_cast<double>(plan.global_batch),
      dataset_size);
  scale_rate(o, plan);
  if (plan.steps > plan.start.step) check_rate(o, plan);
  return plan;
}

}  // namespace lockstep
