#include "apps/run/checkpoint_options.h"

#include "src/base/check.h"

namespace lockstep {
namespace {

std::string text_of(const CheckpointInterval& interval) {
  return interval.steps > 0 ? fmt::format("{}", interval.steps)
                            : fmt::format("{}s", interval.seconds);
}

/// "1000" is steps, "600s", "10m" and "2h" are time.
CheckpointInterval parse_interval(const std::string& text) {
  const char unit = text.back();
  const double scale = unit == 's' ? 1 : unit == 'm' ? 60 : unit == 'h' ? 3600 : 0;
  try {
    if (scale == 0) return {parse_number<std::int64_t>("", text, Bounds::at_least(1)), 0};
    const std::string number = text.substr(0, text.size() - 1);
    return {0, scale * parse_number<double>("", number, Bounds::above_zero(kLongestTime / scale))};
  } catch (const Error&) {
    fail_usage(
        "--checkpoint-every: \"{}\" is neither a number of steps (1000) nor a time (600s, 10m, 2h)",
        text);
  }
}

void check_resume(const std::string& how) {
  if (how != "auto" && how != "never" && how.find('.') == std::string::npos) {
    fail_usage("--resume {} is neither auto nor never nor a checkpoint file (step-NNNNNNNNNN.h5)",
               how);
  }
}

}  // namespace

void CheckpointOptions::declare(OptionRows& rows) {
  rows.group("Checkpoints");
  rows.text("--checkpoint-dir", dir, "DIR", "Folder for checkpoints, step-NNNNNNNNNN.h5 [none]")
      .common();
  rows.add(
          "--checkpoint-every", OptionRow::Type::word,
          [this](const std::string& text) { every = parse_interval(text); },
          [this] { return text_of(every); }, "INTERVAL",
          "Interval between checkpoints: steps (1000) or time (600s, 10m, 2h)")
      .common();
  rows.number("--keep", keep, Bounds::at_least(0), "Number of newest checkpoints to keep; 0: all");
  rows.text("--resume", resume, "HOW",
            "Checkpoint to continue from: auto, never or a file\n"
            "auto is the newest good checkpoint in --checkpoint-dir, if there is one.",
            check_resume)
      .common();
}

}  // namespace lockstep
