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
          fmt::format("Training steps [{}{}]", by_default.steps,
                      generated ? fmt::format("; {} on the generated set", generated->steps) : ""))
      .common();
  rows.optional_number("--epochs", epochs, Bounds::above_zero(),
                       "Passes over the training set, instead of --steps")
      .common();
  rows.optional_number("--batch", batch, Bounds::at_least(1),
                       "Samples per rank and step [128 / ranks]")
      .common();
  rows.optional_number("--global-batch", global_batch, Bounds::at_least(1),
                       "Samples per step on all ranks together [batch * ranks]")
      .common();
  rows.optional_number("--shards", shards, Bounds::at_least(1),
                       "Shards of the global batch, summed in one fixed order [ranks]\n"
                       "The same number of shards gives bitwise identical weights on any number "
                       "of ranks.");
  rows.number("--accumulate", accumulate, Bounds::at_least(1, 1 << 20),
              "Gradient accumulation: micro-batches per rank and step\n"
              "Each has --batch samples. The number of shards grows by the same factor.");
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
  rows.text("--lr-schedule", rate.schedule, "NAME", "Learning-rate schedule (see --list)",
            [](const std::string& name) { find(rate_schedules(), name); })
      .shapes_weights()
      .common();
  rows.number("--lr-decay", rate.decay, Bounds::above_zero(),
              "Factor per --lr-decay-epochs, with --lr-schedule exponential")
      .shapes_weights();
  rows.number("--lr-decay-epochs", rate.decay_epochs, Bounds::above_zero(),
              "Epochs per --lr-decay, with --lr-schedule exponential")
      .shapes_weights();
  rows.flag("--lr-smooth", rate.smooth,
            "Smooth decay instead of steps, with --lr-schedule exponential")
      .shapes_weights();
  rows.number("--lr-end", rate.end, Bounds::at_least(0),
              "Final learning rate, with --lr-schedule cosine or linear")
      .shapes_weights();
  rows.number("--lr-scale-batch", rate_batch, Bounds::at_least(0),
              "Global batch that --lr is meant for; 0: no scaling\n"
              "The rate is --lr times the global batch, divided by this (linear scaling rule).")
      .shapes_weights();
  rows.number("--warmup-epochs", rate.warmup_epochs, Bounds::at_least(0),
              "Epochs of linear warm-up from 0")
      .shapes_weights()
      .common();
}

}  // namespace lockstep
