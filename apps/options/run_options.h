// The options of a training run. Each struct declares the row of each of its options.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/step/step_options.h"
#include "net/model.h"
#include "src/base/check.h"
#include "src/base/option_rows.h"

namespace lockstep {

/// When to write a checkpoint: every `steps` steps or every `seconds` seconds, whichever is set;
/// neither: only at the end.
struct CheckpointInterval {
  std::int64_t steps = 0;
  double seconds = 0;

  bool operator==(const CheckpointInterval&) const = default;

  std::string text() const {
    return steps > 0 ? fmt::format("{}", steps) : fmt::format("{}s", seconds);
  }
  /// "1000" is steps, "600s", "10m" and "2h" are time. Throws the usage Error.
  static CheckpointInterval from(const std::string& text) {
    const char unit = text.back();
    const double scale = unit == 's' ? 1 : unit == 'm' ? 60 : unit == 'h' ? 3600 : 0;
    try {
      if (scale == 0) return {parse_number<std::int64_t>("", text, Bounds::at_least(1)), 0};
      const Bounds bounds = Bounds::above_zero(kLongestTime / scale);
      return {0, scale * parse_number<double>("", text.substr(0, text.size() - 1), bounds)};
    } catch (const Error&) {
      fail_usage(
          "--checkpoint-every: \"{}\" is neither steps nor a time. Use a number of steps (1000) or "
          "a time (600s, 10m, 2h).",
          text);
    }
  }
};

struct CheckpointOptions {
  CheckpointInterval every{0, 600};
  int keep = 3;
  std::string resume = "auto";  ///< auto, never, or a file

  void declare(OptionRows& rows) {
    rows.group("Checkpoints");
    rows.add(
            "--checkpoint-every", OptionRow::Type::word,
            [this](const std::string& text) { every = CheckpointInterval::from(text); },
            [this] { return every.text(); }, "INTERVAL",
            "Interval between checkpoints: steps (1000) or time (600s, 10m, 2h)\n"
            "Steps are at least 1. A time is above 0 and at most 31 years.")
        .common();
    rows.number("--keep", keep, Bounds::at_least(0),
                "Number of newest checkpoints to keep; 0: all");
    rows.text("--resume", resume, "HOW",
              "Checkpoint to continue from: auto, never or a file\n"
              "auto is the newest good checkpoint of the run, if there is one.",
              check_resume)
        .suggests({"auto", "never"})
        .common();
  }

 private:
  static void check_resume(const std::string& how) {
    if (how == "auto" || how == "never" || how.find('.') != std::string::npos) return;
    fail_usage("--resume {} is unknown. Use auto, never or a checkpoint file (step-NNNNNNNNNN.h5).",
               how);
  }
};

/// Evaluations and reports.
struct ReportOptions {
  std::string trace;  ///< a file; empty: none
  std::int64_t log_every = 10, summary_every = 100, eval_every = 1000, verify_every = 1000;
  bool test_views = false;    ///< evaluate on six views of each image (apps/run/test_views.h)
  double target = 0;          ///< accuracy in per cent at which the run ends; 0: none
  std::int64_t patience = 0;  ///< evaluations without a better one that end the run; 0: none
  bool epoch_lines = false;   ///< an evaluation and a line at the end of each epoch
  bool placement = false;     ///< print each layer's kernel, each rank's host and cores
  bool quiet = false;         ///< print only warnings and the result
  bool verbose = false;       ///< print reducer, buckets, order of sums and memory too

  /// Whether the run evaluates at all. Then it also does at the end.
  bool evaluates() const { return eval_every > 0 || epoch_lines; }

  void declare(OptionRows& rows) {
    rows.group("Reports");
    rows.text(
        "--trace", trace, "FILE",
        "Timeline of all ranks, for Chrome or ui.perfetto.dev [none]\n"
        "It is written at the end of the run. It contains the last 32768 compute spans of each "
        "rank and as many of communication. They need 2 MiB of memory. From 33 ranks on, each "
        "rank keeps fewer, so that all ranks together keep 2 million.");
    rows.number("--log-every", log_every, Bounds::at_least(1), "Steps between log lines");
    rows.number("--summary-every", summary_every, Bounds::at_least(0),
                "Steps between histograms of parameters and gradients; 0: never");
    rows.number("--eval-every", eval_every, Bounds::at_least(0),
                "Steps between evaluations; 0: never\n"
                "They use the validation set, or without one the test set. Another evaluation "
                "follows at the end of the run.")
        .common();
    rows.flag("--test-views", test_views,
              "Evaluation with the mean logits of six views of each image\n"
              "The views are mirrored and moved by a pixel.");
    rows.number("--target", target, Bounds::at_least(0, 100),
                "Accuracy in percent of an evaluation that ends the run; 0: none\n"
                "The run prints how long it took to reach the target.");
    rows.number("--patience", patience, Bounds::at_least(0),
                "Evaluations without a better accuracy that end the run; 0: never\n"
                "This needs a validation set (--validation).");
    rows.flag("--epoch-lines", epoch_lines,
              "Evaluation after each epoch, with its seconds, loss and accuracy");
    rows.number("--verify-every", verify_every, Bounds::at_least(0),
                "Steps between comparisons of all ranks' weights; 0: with checkpoints");
    rows.flag(
        "--quiet", quiet,
        "Output of only the result, and of warnings on stderr\n"
        "The result is the accuracy and the folder of the run. Files contain as much as ever.");
    rows.flag("--verbose", verbose,
              "Start-up summary with reducer, buckets, order of sums and memory\n"
              "--check prints them too.");
    rows.flag("--log-device-placement", placement,
              "Log lines with each layer's kernel and each rank's cores");
  }
};

/// The folder of a run (apps/record/run_place.h): config.toml, summary.json, logs, and
/// checkpoints/.
struct RunFolderOptions {
  std::string name;    ///< --run; empty: a name of program, model and number
  bool fresh = false;  ///< --new: never a folder that exists
  bool none = false;   ///< --no-run

  void declare(OptionRows& rows) {
    const auto never = [] { return false; };  // config.toml describes a run, not its folder
    rows.group("Run");
    rows.text("--run", name, "NAME",
              "Run to begin or to resume, in runs/NAME [PROGRAM-MODEL-NUMBER]\n"
              "A name with a slash is the path of the folder. Without a name, the same options "
              "resume the same run, and other options begin the next number.",
              [](const std::string& given) {
                if (given == "." || given.ends_with(".."))
                  fail_usage("--run {} is no name. Use another one.", given);
              })
        .common()
        .only_if(never);
    rows.flag("--new", fresh, "New run, with the next free number").only_if(never);
    rows.flag("--no-run", none, "Run without a folder: nothing is kept").only_if(never);
  }
};

/// --find-lr: a learning-rate range test instead of a run (apps/run/find_lr.h).
struct RangeTestOptions {
  static constexpr double kLowest = 1e-6, kHighest = 10;  ///< learning rates

  std::int64_t steps = 0;  ///< 0: a run
  std::string file;        ///< for the points; empty: none
};

/// An option of a run. The texts are those of config.toml; empty: there is none.
struct OptionValue {
  std::string name;  ///< without dashes
  std::string value, by_default;
  bool shapes = false;   ///< with another value the weights are those of another run
  bool changed = false;  ///< somebody set it, and not to its default
};

/// What the command line, the config file and the recipes say. Nothing changes it after that.
struct Options : StepOptions {
  std::string program;             ///< "train_cifar"
  std::vector<std::string> words;  ///< of the command line, as a shell reads them
  ModelEntry entry;                ///< of --model
  RunFolderOptions run;
  ReportOptions reports;
  CheckpointOptions checkpoints;
  RangeTestOptions find_lr;

  bool check = false;
  bool list = false;
  bool summary = false;

  std::vector<OptionValue> values;  ///< of a run, in the order of the help
  std::vector<std::string> notes;   ///< options that do nothing in this run, one line each

  /// The values as lines "name=value", which --config reads.
  std::string text() const {
    std::string lines;
    for (const OptionValue& option : values)
      if (!option.value.empty()) lines += fmt::format("{}={}\n", option.name, option.value);
    return lines;
  }
};

}  // namespace lockstep
