// The options of a training run. Each struct declares the row of each of its options.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/evaluate/measures.h"
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
    double scale = 0;  // seconds of the unit; 0: steps
    if (unit == 's') scale = 1;
    if (unit == 'm') scale = 60;
    if (unit == 'h') scale = 3600;
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
  int keep_best = 1;            ///< checkpoints of the best evaluations
  std::string resume = "auto";  ///< auto, never, or a file

  void declare(OptionRows& rows) {
    rows.group("Checkpoints");
    rows.add(
            "--checkpoint-every", OptionRow::Type::word,
            [this](const std::string& text) { every = CheckpointInterval::from(text); },
            [this] { return every.text(); }, "INTERVAL",
            "Interval between checkpoints: steps (1000) or time (600s, 10m, 2h)\n"
            "Steps are at least 1. A time is above 0 and at most 31 years.")
        .common()
        .idle_with("--no-run");
    rows.number("--keep", keep, Bounds::at_least(0), "Number of newest checkpoints to keep; 0: all")
        .idle_with("--no-run");
    rows.number("--keep-best", keep_best, Bounds::at_least(1, 1000),
                "Number of best checkpoints to keep beside the newest\n"
                "best.h5 is the best one. With more than 1, each has a name too: "
                "best-STEP.h5. This needs a validation set (--validation).")
        .idle_with("--no-run")
        .example("3 --validation 0.1")
        .also_called({"save-top-k"});
    rows.text("--resume", resume, "HOW",
              "Checkpoint to continue from: auto, never or a file\n"
              "auto is the newest good checkpoint of the run, if there is one.",
              check_resume)
        .suggests({"auto", "never"})
        .idle_with("--no-run", [this] { return resume == "never"; });
  }

 private:
  static void check_resume(const std::string& how) {
    if (how == "auto" || how == "never" || how.find('.') != std::string::npos) return;
    fail_usage("--resume {} is unknown. Use auto, never or a checkpoint file (step-NNNNNNNNNN.h5).",
               how);
  }
};

/// --test-views of training programs and of evaluate.
inline OptionRow& declare_test_views(OptionRows& rows, bool& views) {
  return rows.flag("--test-views", views,
                   "Evaluation with the mean logits of six views per image\n"
                   "The image counts as it is, moved by a pixel down and right, and moved up and "
                   "left. Its mirror image counts in the same three places. An evaluation takes "
                   "six times as long.");
}

/// Evaluations and reports.
struct ReportOptions {
  std::string trace;  ///< a file; empty: none
  std::int64_t log_every = 10, summary_every = 100, verify_every = 1000;
  std::int64_t eval_every = 1000;  ///< 0: never, or after each epoch
  bool epoch_lines = false;        ///< an evaluation and a line at the end of each epoch
  bool test_views = false;  ///< evaluate on views of each image (apps/evaluate/mean_of_views.h)
  std::string best = "accuracy";  ///< one of measures()
  double target = 0;              ///< accuracy in per cent at which the run ends; 0: none
  std::int64_t patience = 0;      ///< evaluations without a better one that end the run; 0: none
  bool quiet = false;             ///< print only warnings and the result
  bool verbose = false;           ///< print reducer, buckets, memory, kernels and cores too

  /// Whether the run evaluates at all. Then it also does at the end.
  bool evaluates() const { return eval_every > 0 || epoch_lines; }
  const Measure& measure() const { return find(measures(), best); }

  void declare(OptionRows& rows) {
    rows.group("Reports");
    rows.text(
            "--trace", trace, "FILE",
            "Timeline of all ranks, for Chrome or ui.perfetto.dev [none]\n"
            "It is written at the end of the run. It contains the last 32768 compute spans of each "
            "rank and as many of communication. They need 2 MiB of memory. From 33 ranks on, each "
            "rank keeps fewer, so that all ranks together keep 2 million.")
        .example("trace.json");
    rows.number("--log-every", log_every, Bounds::at_least(1), "Steps between log lines")
        .also_called({"print-freq"});
    rows.number("--summary-every", summary_every, Bounds::at_least(0),
                "Steps between histograms of parameters and gradients; 0: never")
        .idle_with("--no-run", [this] { return summary_every > 0; });
    rows.add(
            "--eval-every", OptionRow::Type::word,
            [this](const std::string& text) {
              epoch_lines = text == "epoch";
              eval_every = epoch_lines ? 0 : parse_number<std::int64_t>("--eval-every", text, {});
            },
            [this] { return epoch_lines ? "epoch" : fmt::format("{}", eval_every); }, "INTERVAL",
            "Steps between evaluations, or epoch; 0: never\n"
            "They use the validation set, or without one the test set. Another evaluation follows "
            "at the end of the run. epoch evaluates after each epoch and prints its seconds, loss "
            "and accuracy.")
        .common();
    const auto evaluated = [this] { return evaluates(); };
    declare_test_views(rows, test_views)
        .only_with("--eval-every", evaluated)
        .example(kOnImages.substr(1));
    declare_goals(rows);
    rows.number("--verify-every", verify_every, Bounds::at_least(0),
                "Steps between comparisons of all ranks' weights; 0: with checkpoints");
    rows.flag(
        "--quiet", quiet,
        "Output of only the result, and of warnings on stderr\n"
        "The result is the accuracy and the folder of the run. Files contain as much as ever.");
    rows.flag(
        "--verbose", verbose,
        "Start-up summary with reducer, buckets, memory, kernels and cores\n"
        "It names the kernel of each layer and the cores of each rank. --check prints all but "
        "these two.");
  }

 private:
  void declare_goals(OptionRows& rows) {
    const auto evaluated = [this] { return evaluates(); };
    std::vector<std::string> names;
    std::string about;
    for (const Measure& one : measures()) {
      if (!one.chooses) continue;
      names.emplace_back(one.name);
      about += fmt::format(" {} is {}.", one.name, one.about);
    }
    rows.choice("--best", best, "MEASURE",
                fmt::format("Measure of the best evaluation: {}\n"
                            "It chooses best.h5 and counts for --patience. Equal values keep the "
                            "smaller loss, then the earlier evaluation.{}",
                            fmt::join(names, ", "), about),
                names)
        .only_with("--eval-every", evaluated)
        .common()
        .example("f1 --validation 0.1")
        .also_called({"monitor", "eval-metric"});
    rows.number("--target", target, Bounds::at_least(0, 100),
                "Accuracy in percent of an evaluation that ends the run; 0: none\n"
                "The run prints how long it took to reach the target.")
        .only_with("--eval-every", evaluated)
        .example("94");
    rows.number(
            "--patience", patience, Bounds::at_least(0),
            "Evaluations without a better one that end the run; 0: never\n"
            "--best chooses the measure. An equal value with a smaller loss is not better. This "
            "needs a validation set (--validation).")
        .only_with("--eval-every", evaluated)
        .common()
        .example("5 --validation 0.1");
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
        .only_if(never)
        .example("first")
        .also_called({"checkpoint-dir", "log-dir", "logdir", "output-dir", "train-dir"});
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
  bool shapes = false;     ///< with another value the weights are those of another run
  bool changed = false;    ///< it was set, and not to its default
  bool of_recipe = false;  ///< a recipe set it
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

  /// Declares all groups of a run besides those of its data and its model.
  void declare(OptionRows& rows, const DatasetEntry& data_set) {
    schedule.declare(rows, data_set);
    optimizer.declare(rows);
    ranks.declare(rows);
    device.declare(rows);
    reports.declare(rows);
    run.declare(rows);
    checkpoints.declare(rows);
  }

  /// The values as lines "name=value", which --config reads. `batch`: that of the run, in place of
  /// --global-batch if that is set; 0: not known yet.
  std::string text(std::int64_t batch = 0) const {
    std::string lines;
    for (const auto& [name, value, by_default, shapes, changed, of_recipe] : values) {
      const bool fitted = batch > 0 && name == "global-batch";
      if (!value.empty())
        lines += fmt::format("{}={}\n", name, fitted ? std::to_string(batch) : value);
    }
    return lines;
  }
};

}  // namespace lockstep
