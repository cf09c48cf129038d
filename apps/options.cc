#include "apps/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>

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
  if (code != std::errc{} || value <= 0 || (unit != "" && scale == 0)) {
    throw CLI::ValidationError(
        "--checkpoint-every",
        "\"" + text + "\" is neither a number of steps (1000) nor a time (600s, 10m, 2h)");
  }
  if (scale > 0) return {0, value * scale};
  return {static_cast<std::int64_t>(value), 0};
}

/// The error for a command line that CLI11 does not understand: with the nearest option where one
/// is near.
[[noreturn]] void fail_extra(const CLI::App& app, const std::string& word) {
  if (word.rfind("-", 0) != 0)
    fail_usage("\"{}\" is not understood: options begin with --; see --help", word);
  std::vector<std::string_view> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back(name);
  }
  const std::string name =
      word.substr(word.find_first_not_of('-'), word.find('=') - word.find_first_not_of('-'));
  const std::string near = nearest(name, known);
  fail_usage("unknown option {}{}; --help lists all options", word,
             near.empty() ? "" : fmt::format(": did you mean --{}?", near));
}

void add_options(CLI::App& app, Options& o) {
  const auto at_least_1 = CLI::Range(std::int64_t{1}, std::int64_t{1} << 40, "1 or more");
  const auto not_negative = CLI::NonNegativeNumber;
  app.option_defaults()->always_capture_default();

  std::string group = "Data";
  app.add_option("--data", o.data,
                 "Folder with the data set's official files (cifar10: data_batch_1.bin ...); "
                 "without it a built-in generated set is used")
      ->group(group);
  app.add_option("--dataset", o.dataset,
                 "cifar10 or synthetic [cifar10 with --data, else synthetic]")
      ->group(group);

  group = "Model";
  app.add_option("--model", o.model, "Network to train (see --list)")->group(group);
  app.add_option_function<std::string>(
         "--precision",
         [&o](const std::string& name) { o.precision = name == "bf16" ? Type::bf16 : Type::f32; },
         "Type of activations: fp32 or bf16 (weights and sums stay fp32)")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->default_str(name_of(o.precision))
      ->group(group);

  group = "Training";
  app.add_option("--steps", o.steps, "Steps to train [10000; 1000 on the generated set]")
      ->check(at_least_1)
      ->group(group);
  app.add_option("--epochs", o.epochs, "The same in passes over the training set")
      ->check(CLI::PositiveNumber)
      ->group(group);
  app.add_option("--batch", o.batch, "Samples per rank and step [128 / ranks]")
      ->check(at_least_1)
      ->group(group);
  app.add_option("--global-batch", o.global_batch,
                 "Samples of all ranks together per step [batch * ranks]")
      ->check(at_least_1)
      ->group(group);
  app.add_option("--shards", o.shards,
                 "Parts of the global batch, added in one fixed order: equal shards give equal "
                 "weights, bit for bit, "
                 "on any number of ranks [one per rank]")
      ->check(at_least_1)
      ->group(group);
  app.add_option("--seed", o.seed,
                 "Of the initial weights, the order of samples and their distortion")
      ->group(group);
  app.add_option("--optimizer", o.optimizer, "How gradients become steps (see --list)")
      ->group(group);
  app.add_option("--momentum", o.optimizer_options.momentum, "Of sgd; 0: none")
      ->check(CLI::Range(0.0, 1.0))
      ->group(group);
  app.add_flag("--nesterov", o.optimizer_options.nesterov, "Look ahead along the momentum")
      ->group(group);
  app.add_option("--weight-decay", o.optimizer_options.weight_decay,
                 "L2 factor on all weights, besides the model's own")
      ->check(not_negative)
      ->group(group);
  app.add_option("--ema", o.ema,
                 "Decay of the moving average of the weights that evaluation uses; 0: none")
      ->check(CLI::Range(0.0, 1.0))
      ->group(group);

  group = "Learning rate";
  app.add_option("--lr", o.rate.base, "Learning rate")->check(CLI::PositiveNumber)->group(group);
  app.add_option("--lr-schedule", o.rate.schedule, "How it changes (see --list)")->group(group);
  app.add_option("--lr-decay", o.rate.decay, "exponential: factor per --lr-decay-epochs")
      ->check(CLI::PositiveNumber)
      ->group(group);
  app.add_option("--lr-decay-epochs", o.rate.decay_epochs, "exponential: epochs per factor")
      ->check(CLI::PositiveNumber)
      ->group(group);
  app.add_flag("--lr-staircase,!--no-lr-staircase", o.rate.staircase,
               "exponential: in steps, not smoothly")
      ->group(group);
  app.add_option("--lr-end", o.rate.end, "cosine, linear: the rate at the end")
      ->check(not_negative)
      ->group(group);
  app.add_option("--warmup-epochs", o.rate.warmup_epochs,
                 "Rise linearly from 0 over so many epochs")
      ->check(not_negative)
      ->group(group);

  group = "Ranks";
  app.add_option("--reducer", o.reducer,
                 "How gradients are summed over the ranks: auto or one of --list")
      ->group(group);
  app.add_option("--bucket-mb", o.bucket_mb, "MiB of gradients that are summed together")
      ->check(CLI::PositiveNumber)
      ->group(group);
  app.add_option("--progress", o.progress,
                 "Who moves the sums on during backward: auto, wait, poll or thread")
      ->group(group);
  app.add_option("--threads", o.threads,
                 "Threads per rank [the node's cores shared out among its ranks]")
      ->check(at_least_1)
      ->group(group);
  app.add_option("--timeout", o.timeout,
                 "Seconds without progress after which the run is ended with the reason")
      ->check(CLI::PositiveNumber)
      ->group(group);

  group = "Reports";
  app.add_option("--log-dir", o.log_dir,
                 "Folder for metrics.jsonl and TensorBoard's event file [none]")
      ->group(group);
  app.add_option("--log-every", o.log_every, "Steps between lines")
      ->check(at_least_1)
      ->group(group);
  app.add_option("--summary-every", o.summary_every,
                 "Steps between histograms of all parameters and gradients; 0: never")
      ->check(not_negative)
      ->group(group);
  app.add_option("--eval-every", o.eval_every,
                 "Steps between evaluations on the test set; 0: only at the end")
      ->check(not_negative)
      ->group(group);
  app.add_option("--verify-every", o.verify_every,
                 "Steps between comparisons of all ranks' weights; 0: only with checkpoints")
      ->check(not_negative)
      ->group(group);
  app.add_flag("--log-device-placement", o.log_device_placement,
               "Print which kernel runs each layer, and each rank's host and cores")
      ->group(group);

  group = "Checkpoints";
  app.add_option("--checkpoint-dir", o.checkpoint_dir,
                 "Folder for checkpoints, step-NNNNNNNNNN.h5 [none]")
      ->group(group);
  app.add_option_function<std::string>(
         "--checkpoint-every",
         [&o](const std::string& text) { o.checkpoint_every = parse_interval(text); },
         "Steps (1000) or time (600s, 10m, 2h) between checkpoints")
      ->default_str(text_of(o.checkpoint_every))
      ->group(group);
  app.add_option("--keep", o.keep, "How many of the newest checkpoints stay; 0: all")
      ->check(not_negative)
      ->group(group);
  app.add_option(
         "--resume", o.resume,
         "auto: go on from the newest good checkpoint if there is one; never; or a checkpoint file")
      ->group(group);

  group = "Instead of training";
  app.add_flag("--check", o.check,
               "Set everything up, check options, data, ranks and folders, and train nothing")
      ->group(group);
  app.add_flag("--list", o.list,
               "List models, data sets, optimizers, schedules, reducers and policies")
      ->group(group);
}

/// What one option's own check cannot see.
void check_together(const Options& o) {
  if (o.steps > 0 && o.epochs > 0)
    fail_usage("--steps and --epochs both say how long to train: give one of them");
  if (o.batch > 0 && o.global_batch > 0)
    fail_usage("--batch (per rank) and --global-batch say the same: give one of them");
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
  app.get_formatter()->column_width(34);
  app.allow_extras();
  app.allow_config_extras(false);
  try {
    app.parse(argc, argv);
    if (!app.remaining().empty()) fail_extra(app, app.remaining().front());
  } catch (const CLI::CallForHelp&) {
    text_to_print = app.help();
    return std::nullopt;
  } catch (const CLI::CallForVersion& version) {
    text_to_print = fmt::format("{} {}\n", program, version.what());
    return std::nullopt;
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
  o.text = app.config_to_str(true);
  return o;
}

std::string menus() {
  return menu("models", models()) + menu("data sets", datasets()) +
         menu("optimizers", optimizers()) + menu("learning-rate schedules", rate_schedules()) +
         menu("reducers", reducers()) + menu("progress policies", policies());
}

}  // namespace lockstep
