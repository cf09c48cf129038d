// Learning-rate schedules: the rate as a function of how far the run is, in epochs, so that it does
// not depend on the number of ranks or on where a run was resumed.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// The options of the learning rate.
struct RateOptions {
  std::string schedule = "exponential";
  double base = 0.1;          ///< after warm-up, before decay
  double decay = 0.1;         ///< exponential: factor per decay_epochs
  double decay_epochs = 350;  ///< exponential: epochs per factor
  bool smooth = false;        ///< exponential: smoothly, not in steps
  double warmup_epochs = 0;   ///< any: rise linearly from 0 (towards base) over this many epochs
  double end = 0;             ///< cosine, linear: the rate at the last step

  /// Reads a schedule as text() returns it. Throws the usage error.
  void choose(const std::string& text);
  /// "cosine", or "exponential:0.1@350": decay and epochs. ":smooth" may follow.
  std::string text() const;
  /// Whether the schedule ends at `end`.
  bool has_end() const { return schedule == "cosine" || schedule == "linear"; }
};

struct RateEntry {
  static constexpr std::string_view kind = "learning-rate schedule";
  std::string_view name;
  std::string_view about;
  double (*rate)(const RateOptions&, double epoch, double epochs);
};

std::span<const RateEntry> rate_schedules();

/// The rate at `epoch` (fraction and all) of a run of `epochs`.
double learning_rate(const RateOptions& options, double epoch, double epochs);

}  // namespace lockstep
