#include "apps/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <sstream>
#include <type_traits>

#include "apps/command_line.h"
#include "collectives/buckets.h"
#include "collectives/reducer.h"
#include "net/model.h"
#include "src/data/dataset.h"
#include "src/machine.h"
#include "src/table.h"

namespace lockstep {
namespace {

std::string text_of(const CheckpointInterval& interval) {
  return interval.steps > 0 ? fmt::format("{}", interval.steps)
                            : fmt::format("{:g}s", interval.seconds);
}

/// "1000" is steps, "600s", "10m" and "2h" are time.
CheckpointInterval parse_interval(const std::string& text) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, text.data() + text.size());
  const double scale = unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  const bool number = code == std::errc{} && value > 0 && value < 0x1p62;
  if (!number || (scale == 0 && (unit != "" || value != std::floor(value)))) {
    throw CLI::ValidationError(
        "--checkpoint-every",
        "\"" + text + "\" is neither a number of steps (1000) nor a time (600s, 10m, 2h)");
  }
  if (scale > 0) return {0, value * scale};
  return {static_cast<std::int64_t>(value), 0};
}

/// Says so where `text` is a whole number that T cannot hold: CLI11 would take the nearest that it
/// can.
template <class T>
std::string holds(std::string& text) {
  T value{};
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  return result.ec == std::errc::result_out_of_range ? text + " is too large" : "";
}

/// Adds options to one group of the help after another.
class Adder {
 public:
  explicit Adder(CLI::App& app) : app_(app) { app.option_defaults()->always_capture_default(); }

  void group(const char* name) { group_ = name; }
  CLI::Option* text(const char* name, std::string& value, const char* type, const char* about) {
    return app_.add_option(name, value, about)->type_name(type)->group(group_);
  }
  /// A number of at least `low`.
  template <class T>
  CLI::Option* number(const char* name, T& value, double low, const char* about) {
    const char* type = std::is_integral_v<T> ? "N" : "NUMBER";
    CLI::Option* option = app_.add_option(name, value, about)->type_name(type)->group(group_);
    if constexpr (std::is_integral_v<T>) option->check({holds<T>, ""});
    return option->check(between(low, kAnyNumber));
  }
  /// The same where 0 stands for a default that the text names in brackets.
  template <class T>
  CLI::Option* optional_number(const char* name, T& value, double low, const char* about) {
    return number(name, value, low, about)->default_str("");
  }
  CLI::Option* share(const char* name, float& value, const char* about) {
    return number(name, value, 0, about)->check(between(0, 1));
  }
  CLI::Option* flag(const char* name, bool& value, const char* about) {
    return app_.add_flag(name, value, about)->group(group_);
  }
  /// A word that `read` turns into a value.
  CLI::Option* word(const char* name, const std::function<void(const std::string&)>& read,
                    const char* type, const std::string& shown, const char* about) {
    return app_.add_option_function<std::string>(name, read, about)
        ->type_name(type)
        ->default_str(shown)
        ->group(group_);
  }

 private:
  CLI::App& app_;
  std::string group_;
};

void add_options(CLI::App& app, Options& o) {
  Adder add(app);
  add.group("Data");
  add.text("--data", o.data, "DIR",
           "Folder with CIFAR-10's official files; without it a generated set is used");
  add.text("--dataset", o.dataset, "NAME",
           "cifar10 or synthetic [cifar10 with --data, else synthetic]");

  add.group("Model");
  add.text("--model", o.model, "NAME", "Network to train (see --list)");
  add.word(
         "--precision",
         [&o](const std::string& name) { o.precision = name == "bf16" ? Type::bf16 : Type::f32; },
         "TYPE", name_of(o.precision), "Of activations: fp32 or bf16 (weights and sums stay fp32)")
      ->check(CLI::IsMember({"fp32", "bf16"}).description(""));

  add.group("Training");
  add.optional_number("--steps", o.steps, 1, "Steps to train [10000; 1000 on the generated set]");
  add.optional_number("--epochs", o.epochs, kAboveZero, "The same in passes over the training set");
  add.optional_number("--batch", o.batch, 1, "Samples per rank and step [128 / ranks]");
  add.optional_number("--global-batch", o.global_batch, 1,
                      "Samples of all ranks per step [batch * ranks]");
  add.optional_number("--shards", o.shards, 1,
                      "Equal parts of the global batch, summed in one fixed order: the same number "
                      "of shards gives the "
                      "same weights, bit for bit, on fewer or more ranks [ranks]");
  add.number("--seed", o.seed, 0, "Of initial weights, order of samples and distortions");
  add.text("--optimizer", o.optimizer, "NAME", "How gradients become steps (see --list)");
  add.share("--momentum", o.optimizer_options.momentum, "Of sgd; 0: none");
  add.flag("--nesterov", o.optimizer_options.nesterov, "Look ahead along the momentum");
  add.number("--weight-decay", o.optimizer_options.weight_decay, 0,
             "L2 factor on all weights, besides the model's own");
  add.share("--ema", o.ema, "Decay of the weights' moving average, which evaluation uses; 0: none");

  add.group("Learning rate");
  add.number("--lr", o.rate.base, kAboveZero, "Learning rate");
  add.text("--lr-schedule", o.rate.schedule, "NAME", "How it changes (see --list)");
  add.number("--lr-decay", o.rate.decay, kAboveZero, "exponential: factor per --lr-decay-epochs");
  add.number("--lr-decay-epochs", o.rate.decay_epochs, kAboveZero,
             "exponential: epochs per factor");
  add.flag("--lr-smooth", o.rate.smooth, "exponential: smoothly, not in steps");
  add.number("--lr-end", o.rate.end, 0, "cosine, linear: the rate at the end");
  add.number("--warmup-epochs", o.rate.warmup_epochs, 0,
             "Rise linearly from 0 over so many epochs");

  add.group("Ranks");
  add.text("--reducer", o.reducer, "NAME",
           "How gradients are summed over the ranks: auto or one of --list");
  add.number("--bucket-mb", o.bucket_mb, kAboveZero, "MiB of gradients that are summed together");
  add.text("--progress", o.progress, "NAME",
           "Who moves the sums on during backward: auto, wait, poll or thread");
  add.optional_number("--threads", o.threads, 1,
                      "Threads per rank [the node's cores shared out among its ranks]");
  add.number("--timeout", o.timeout, kAboveZero,
             "Seconds without progress after which the run ends with the reason");

  add.group("Reports");
  add.text("--log-dir", o.log_dir, "DIR",
           "Folder for metrics.jsonl and TensorBoard's event file [none]");
  add.number("--log-every", o.log_every, 1, "Steps between lines");
  add.number("--summary-every", o.summary_every, 0,
             "Steps between histograms of parameters and gradients; 0: never");
  add.number("--eval-every", o.eval_every, 0,
             "Steps between evaluations on the test set, with one at the end; 0: never");
  add.number("--verify-every", o.verify_every, 0,
             "Steps between comparisons of all ranks' weights; 0: with checkpoints");
  add.flag("--log-device-placement", o.log_device_placement,
           "Print each layer's kernel and each rank's host and cores");

  add.group("Checkpoints");
  add.text("--checkpoint-dir", o.checkpoint_dir, "DIR",
           "Folder for checkpoints, step-NNNNNNNNNN.h5 [none]");
  add.word(
      "--checkpoint-every",
      [&o](const std::string& text) { o.checkpoint_every = parse_interval(text); }, "INTERVAL",
      text_of(o.checkpoint_every), "Steps (1000) or time (600s, 10m, 2h) between checkpoints");
  add.number("--keep", o.keep, 0, "How many of the newest checkpoints stay; 0: all");
  add.text("--resume", o.resume, "HOW",
           "auto: from the newest good checkpoint, if any; never; or a checkpoint file");

  add.group("Instead of training");
  add.flag("--check", o.check, "Set up and check everything, train nothing");
  add.flag("--list", o.list,
           "List models, data sets, optimizers, schedules, reducers and policies");
}

/// All options as "name=value" lines that --config reads back; those left unset are left out.
std::string options_text(const CLI::App& app) {
  std::string text;
  std::istringstream lines(app.config_to_str(true));
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && !line.ends_with("=\"\"")) text += line + "\n";
  }
  return text;
}

/// What one option's own check cannot see.
void check_together(const Options& o) {
  if (o.steps > 0 && o.epochs > 0)
    fail_usage("--steps and --epochs both say how long to train: give one of them");
  if (o.batch > 0 && o.global_batch > 0)
    fail_usage("--batch (per rank) and --global-batch say the same: give one of them");
  if (!o.dataset.empty()) find(datasets(), "data set", o.dataset);
  if (!o.dataset.empty() && o.dataset != "synthetic" && o.data.empty()) {
    fail_usage(
        "--dataset {} needs its files: say --data DIR (scripts/get_data.sh {} downloads them)",
        o.dataset, o.dataset);
  }
  if (o.dataset == "synthetic" && !o.data.empty())
    fail_usage("--dataset synthetic is generated: leave --data out");
  if (o.resume != "auto" && o.resume != "never" && o.resume.find('.') == std::string::npos) {
    fail_usage("--resume {} is neither auto nor never nor a checkpoint file (step-NNNNNNNNNN.h5)",
               o.resume);
  }
  find_model(o.model);
  make_optimizer(o.optimizer, o.optimizer_options);
  learning_rate(o.rate, 0, 1);
  parse_policy(o.progress);
  if (o.reducer != "auto") find(reducers(), "reducer", o.reducer);
}

template <class Table>
std::string menu(std::string_view title, const Table& table) {
  std::string text = fmt::format("{}\n", title);
  for (const auto& entry : table) text += fmt::format("  {:<18} {}\n", entry.name, entry.about);
  return text;
}

}  // namespace

std::optional<Options> parse_options(int argc, char** argv, const std::string& program,
                                     std::string& text_to_print) {
  Options o;
  CLI::App app("Trains an image classifier, in lockstep on all ranks: mpirun -np N ./" + program,
               program);
  add_options(app, o);
  app.set_help_flag("-h,--help", "Print this and exit")->group("Instead of training");
  app.set_version_flag("--version", build_name(), "Print the version and exit")
      ->group("Instead of training");
  app.set_config("--config", "",
                 "TOML file of options: lr = 0.05, batch = 64, ... The command line wins")
      ->group("Data");
  app.get_config_ptr()->type_name("FILE");
  app.get_formatter()->column_width(34);
  app.allow_extras();
  app.allow_config_extras(false);
  try {
    app.parse(argc, argv);
    if (!app.remaining().empty()) fail_extra(app);
  } catch (const CLI::CallForHelp&) {
    text_to_print = app.help();
    return std::nullopt;
  } catch (const CLI::CallForVersion& version) {
    text_to_print = fmt::format("{} {}\n", program, version.what());
    return std::nullopt;
  } catch (const CLI::ConfigError& error) {
    fail_config(app, error.what());
  } catch (const CLI::ParseError& error) {
    fail_usage("{}; --help lists all options", error.what());
  }
  const auto given = [&](const char* name) { return app.get_option(name)->count() > 0; };
  o.seed_given = given("--seed");
  o.batch_given = given("--batch") || given("--global-batch");
  o.shards_given = given("--shards");
  if (o.list) {
    text_to_print = menus();
    return std::nullopt;
  }
  check_together(o);
  if (o.dataset.empty()) o.dataset = o.data.empty() ? "synthetic" : "cifar10";
  o.text = options_text(app);
  return o;
}

std::string menus() {
  return menu("models", models()) + menu("data sets", datasets()) +
         menu("optimizers", optimizers()) + menu("learning-rate schedules", rate_schedules()) +
         menu("reducers", reducers()) + menu("progress policies", policies());
}

}  // namespace lockstep
