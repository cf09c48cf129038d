#include "apps/step/schedule_options.h"

#include "net/optimizer.h"
#include "src/base/table.h"

namespace lockstep {
namespace {

/// "; adam 0.001": the optimizers that begin with another rate than `first`.
std::string other_rates(double first) {
  std::string text;
  for (const OptimizerEntry& entry : optimizers()) {
    if (entry.rate != first) text += fmt::format("; {} {:g}", entry.name, entry.rate);
  }
  return text.empty() ? "" : " [" + text.substr(2) + "]";
}

}  // namespace

void ScheduleOptions::declare(OptionRows& rows, const DatasetEntry& by_default) {
  const DatasetEntry* generated = stand_in(by_default.name);
  rows.group("Training");
  rows.optional_number(
          "--steps", steps, Bounds::at_least(1),
          fmt::format("Steps to train [{}{}]", by_default.steps,
                      generated ? fmt::format("; {} on the generated set", generated->steps) : ""))
      .common();
  rows.optional_number("--epochs", epochs, Bounds::above_zero(),
                       "The same in passes over the training set")
      .common();
  rows.optional_number("--batch", batch, Bounds::at_least(1),
                       "Samples per rank and step [128 / ranks]")
      .common();
  rows.optional_number("--global-batch", global_batch, Bounds::at_least(1),
                       "Samples of all ranks per step [batch * ranks]")
      .common();
  rows.optional_number("--shards", shards, Bounds::at_least(1),
                       "Equal parts of the global batch, summed in one fixed order: the same "
                       "number of shards gives the same weights, bit for bit, on fewer or more "
                       "ranks [ranks]");
  rows.number("--accumulate", accumulate, Bounds::at_least(1, 1 << 20),
              "Batches that each rank sums before ranks do: --batch of each, as many times "
              "--shards");
  rows.number("--seed", seed, Bounds::at_least(0),
              "Random seed for initial weights, sample order and augmentation")
      .common();
  declare_rate(rows);
}

void ScheduleOptions::declare_rate(OptionRows& rows) {
  rows.group("Learning rate");
  rows.number("--lr", rate.base, Bounds::above_zero(), "Learning rate" + other_rates(rate.base))
      .shapes_weights()
      .common();
  rows.text("--lr-schedule", rate.schedule, "NAME", "How it changes (see --list)",
            [](const std::string& name) { find(rate_schedules(), name); })
      .shapes_weights()
      .common();
  rows.number("--lr-decay", rate.decay, Bounds::above_zero(),
              "exponential: factor per --lr-decay-epochs")
      .shapes_weights();
  rows.number("--lr-decay-epochs", rate.decay_epochs, Bounds::above_zero(),
              "exponential: epochs per factor")
      .shapes_weights();
  rows.flag("--lr-smooth", rate.smooth, "exponential: smoothly, not in steps").shapes_weights();
  rows.number("--lr-end", rate.end, Bounds::at_least(0), "cosine, linear: the rate at the end")
      .shapes_weights();
  rows.number("--lr-scale-batch", rate_batch, Bounds::at_least(0),
              "The global batch that --lr is meant for: times global batch / that (the linear "
              "scaling rule); 0: --lr is as it stands")
      .shapes_weights();
  rows.number("--warmup-epochs", rate.warmup_epochs, Bounds::at_least(0),
              "Rise linearly from 0 over so many epochs")
      .shapes_weights()
      .common();
}

}  // namespace lockstep
