#include "apps/options/options.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "apps/options/command_line.h"
#include "apps/options/group_option.h"
#include "apps/options/help.h"
#include "apps/options/option_set.h"
#include "collectives/buckets.h"
#include "collectives/reducer.h"
#include "net/model.h"
#include "src/base/machine.h"
#include "src/base/table.h"
#include "src/data/dataset.h"
#include "src/device/cpu/convolution.h"
#include "src/device/cpu/instruction_set.h"
#include "src/device/devices.h"

namespace lockstep {
namespace {

constexpr double kLargestBucket = 1 << 20;  // MiB: more than any model has
constexpr double kMostCtas = 64;            // of NCCL: its channels

std::string text_of(const CheckpointInterval& interval) {
  return interval.steps > 0 ? fmt::format("{}", interval.steps)
                            : fmt::format("{}s", interval.seconds);
}

/// "1000" is steps, "600s", "10m" and "2h" are time.
CheckpointInterval parse_interval(const std::string& text) {
  const char unit = text.empty() ? ' ' : text.back();
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

void parse_precision(const std::string& name, Type& precision) {
  one_of("--precision", {"fp32", "bf16", "fp16"})(name);
  precision = type_called(name);
}

/// "f32" and "f16" too.
void parse_wire(const std::string& name, Type& wire) {
  const std::string full = name == "f32" || name == "f16" ? "fp" + name.substr(1) : name;
  one_of("--wire", {"fp32", "bf16", "fp16"})(full);
  wire = type_called(full);
}

constexpr std::string_view kDynamic = "dynamic";

/// "dynamic", "dynamic:1024", "none" or a number.
LossScaling parse_loss_scale(const std::string& how, std::int32_t growth_steps) {
  constexpr float kFirst = 0x1p16f;
  if (how == "none") return {};
  if (how == kDynamic) return {true, kFirst, growth_steps};
  const bool dynamic = how.starts_with("dynamic:");
  try {
    const std::string number = dynamic ? how.substr(kDynamic.size() + 1) : how;
    const auto bounds = Bounds::at_least(1, LossScaling::kHighest);
    return {dynamic, parse_number<float>("", number, bounds), growth_steps};
  } catch (const Error&) {
    fail_usage(
        "--loss-scale: \"{}\" is neither auto, none, dynamic, a number from 1 to {} nor dynamic: "
        "with one (dynamic:1024)",
        how, LossScaling::kHighest);
  }
}

void parse_padding(const std::string& text, int& padding) {
  padding = text == "auto" ? kOwnPadding
                           : parse_number<int>("--crop-padding", text, Bounds::at_least(0, 16));
}

void check_resume(const std::string& how) {
  if (how != "auto" && how != "never" && how.find('.') == std::string::npos) {
    fail_usage("--resume {} is neither auto nor never nor a checkpoint file (step-NNNNNNNNNN.h5)",
               how);
  }
}

/// Where the options of all optimizers are read to.
struct OptimizerValue {
  explicit OptimizerValue(float value)
      : number(value), whole(static_cast<int>(value)), flag(value != 0) {}
  float of(OptimizerOption::Kind kind) const {
    if (kind == OptimizerOption::Kind::flag) return static_cast<float>(flag);
    return kind == OptimizerOption::Kind::whole ? static_cast<float>(whole) : number;
  }
  float number;
  int whole;
  bool flag;
};
using OptimizerValues = std::map<std::string_view, OptimizerValue>;

bool declares(const OptimizerEntry& entry, std::string_view name) {
  return std::any_of(entry.options.begin(), entry.options.end(),
                     [&](const OptimizerOption& option) { return option.name == name; });
}

/// The optimizers that declare option `name`: "adam, adamw".
std::string owners_of(std::string_view name) {
  std::vector<std::string_view> owners;
  for (const OptimizerEntry& entry : optimizers()) {
    if (declares(entry, name)) owners.push_back(entry.name);
  }
  return fmt::format("{}", fmt::join(owners, ", "));
}

/// " [rmsprop 1e-07; nadam 1e-07]": the optimizers whose default of an option is not that of the
/// first one that declares it.
std::string other_defaults(const OptimizerOption& first) {
  std::vector<std::string> others;
  for (const OptimizerEntry& entry : optimizers()) {
    for (const OptimizerOption& option : entry.options) {
      if (option.name == first.name && option.value != first.value)
        others.push_back(fmt::format("{} {:g}", entry.name, option.value));
    }
  }
  return others.empty() ? "" : fmt::format(" [{}]", fmt::join(others, "; "));
}

void add_optimizer_options(OptionSet& add, const Options& o, OptimizerValues& values) {
  for (const OptimizerEntry& entry : optimizers()) {
    for (const OptimizerOption& option : entry.options) {
      const auto [place, fresh] = values.try_emplace(option.name, option.value);
      if (!fresh) continue;
      add.group("Of --optimizer " + owners_of(option.name));
      const std::string name = fmt::format("--{}", option.name),
                        about = std::string(option.about) + other_defaults(option);
      OptimizerValue& value = place->second;
      const Bounds bounds{option.low, option.high, option.above_low};
      using Kind = OptimizerOption::Kind;
      (option.kind == Kind::flag    ? add.flag(name, value.flag, about)
       : option.kind == Kind::whole ? add.number(name, value.whole, bounds, about)
                                    : add.number(name, value.number, bounds, about))
          .shapes_weights()
          .only_where([&o, name = option.name] {
            return declares(find(optimizers(), o.optimizer.name), name);
          });
    }
  }
}

/// The values of the chosen optimizer's options, its defaults where none was given, which `values`
/// takes; throws where another's was given.
OptimizerOptions own_options(const Options& o, OptimizerValues& values, OptionSet& given) {
  const OptimizerEntry& chosen = find(optimizers(), o.optimizer.name);
  OptimizerOptions own;
  for (const auto& [name, value] : values) {
    const std::string option = fmt::format("--{}", name);
    if (!declares(chosen, name) && given.given(option)) {
      std::vector<std::string> known;
      for (const OptimizerOption& its : chosen.options)
        known.push_back(fmt::format("--{}", its.name));
      fail_usage("{} is an option of --optimizer {}, and this is {}, which takes {}",
                 given.where(option), owners_of(name), chosen.name,
                 known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
    }
  }
  for (const OptimizerOption& option : chosen.options) {
    OptimizerValue& value = values.at(option.name);
    const std::string name = fmt::format("--{}", option.name);
    const OptimizerValue said = std::exchange(value, OptimizerValue(option.value));
    given.is_usual(name);
    if (given.given(name) || given.is_preset(name)) value = said;
    own.emplace(option.name, value.of(option.kind));
  }
  return own;
}

/// "; adam 0.001": the optimizers that begin with another rate than `usual`.
std::string usual_rates(double usual) {
  std::string text;
  for (const OptimizerEntry& entry : optimizers()) {
    if (entry.rate != usual) text += fmt::format("; {} {:g}", entry.name, entry.rate);
  }
  return text.empty() ? "" : " [" + text.substr(2) + "]";
}

void add_options(OptionSet& add, Options& o, const Program& program,
                 OptimizerValues& optimizer_values) {
  const DatasetEntry& data = find(datasets(), program.dataset);
  const DatasetEntry* generated = stand_in(data.name);
  add.group("Data");
  add.text("--data", o.data.folder, "DIR",
           fmt::format("Folder with {}{}", data.files,
                       generated ? "; without it a generated set is used" : ""));
  add.text("--dataset", o.data.dataset, "NAME",
           fmt::format("Samples to train on (see --list) [{}{}]", data.name,
                       generated ? fmt::format(" with --data, else {}", generated->name) : ""),
           [](const std::string& name) { find(datasets(), name); });

  add.word(
         "--crop-padding",
         [&o](const std::string& text) { parse_padding(text, o.data.crop_padding); },
         [&o] {
           return o.data.crop_padding == kOwnPadding ? "auto" : std::to_string(o.data.crop_padding);
         },
         "N",
         "Training crops and moves images by up to so many pixels beyond their edges, where they "
         "are reflected; auto: 4 where images are whole, else 0")
      .shapes_weights();
  add.flag("--alternate-flips", o.data.alternate_flips,
           "Mirror each training image by chance in the first epoch, and from then on in turns")
      .shapes_weights();
  add.number("--cutout", o.data.mixing.cutout, Bounds::at_least(0, 1024),
             "Cut a square of so many pixels out of each training image; 0: none")
      .shapes_weights();
  add.number("--mixup", o.data.mixing.mixup, Bounds::at_least(0, 4),
             "Mix each training image and its label with another's, by weights of the distribution "
             "Beta(this, this); 0: never")
      .shapes_weights();

  add.group("Model");
  add.text("--model", o.model.name, "NAME",
           fmt::format("Network to train (see --list) [the data set's, {}]", data.model),
           [](const std::string& name) { find(models(), name); });
  if (!program.as_published.empty()) {
    add.flag(
        "--as-published", o.model.as_published,
        fmt::format("The published example with its mistake: --model {}", program.as_published));
  }
  add.word(
         "--precision", [&o](const std::string& name) { parse_precision(name, o.model.precision); },
         [&o] { return name_of(o.model.precision); }, "TYPE",
         "Of activations: fp32, bf16, or on GPUs fp16 (weights and sums stay fp32)")
      .shapes_weights();

  add.group("Training");
  add.optional_number(
      "--steps", o.schedule.steps, Bounds::at_least(1),
      fmt::format("Steps to train [{}{}]", data.steps,
                  generated ? fmt::format("; {} on the generated set", generated->steps) : ""));
  add.optional_number("--epochs", o.schedule.epochs, Bounds::above_zero(),
                      "The same in passes over the training set");
  add.optional_number("--batch", o.schedule.batch, Bounds::at_least(1),
                      "Samples per rank and step [128 / ranks]");
  add.optional_number("--global-batch", o.schedule.global_batch, Bounds::at_least(1),
                      "Samples of all ranks per step [batch * ranks]");
  add.optional_number("--shards", o.schedule.shards, Bounds::at_least(1),
                      "Equal parts of the global batch, summed in one fixed order: the same number "
                      "of shards gives the "
                      "same weights, bit for bit, on fewer or more ranks [ranks]");
  add.number("--seed", o.schedule.seed, Bounds::at_least(0),
             "Of initial weights, order of samples and augmentations");
  add.text("--init", o.model.init, "FILE",
           "Begin with the weights of a checkpoint, as step 0 of a run of its own [random ones]")
      .shapes_weights();
  add.text("--optimizer", o.optimizer.name, "NAME", "How gradients become steps (see --list)",
           [](const std::string& name) { find(optimizers(), name); })
      .shapes_weights();
  add.number(
         "--weight-decay", o.optimizer.weight_decay, Bounds::at_least(0),
         "Of all weights, besides the model's own: L2 in the loss; with adamw and lamb decoupled")
      .shapes_weights();
  add.list("--group", o.optimizer.group_texts, "PATTERN:SETTINGS",
           "Of parameters whose names match (* is any text), as in 'conv*/biases:lr=0.1,"
           "weight-decay=0': lr, a factor of --lr (0: they stay as they are), weight-decay, "
           "instead of any other, and epochs, after which they stay as they are, having had the "
           "schedule of so short a run; may be said again, and the first that matches counts",
           parse_group)
      .shapes_weights();
  add.number("--clip-norm", o.optimizer.clip_norm, Bounds::at_least(0),
             "Scale gradients down to this length of all together; 0: never")
      .shapes_weights();
  add.text("--loss-scale", o.optimizer.loss_scale, "HOW",
           "So that small gradients do not vanish in 16 bits: a number; dynamic, or dynamic:FIRST "
           "(halved when they overflow, and that step skipped); none; auto: dynamic with fp16",
           [](const std::string& how) {
             if (how != "auto") parse_loss_scale(how, 1);
           })
      .shapes_weights();
  add.number("--loss-scale-steps", o.optimizer.loss_scale_steps, Bounds::at_least(1, 1 << 30),
             "dynamic: steps without overflow after which it is doubled")
      .shapes_weights();
  add.number(
      "--accumulate", o.schedule.accumulate, Bounds::at_least(1, 1 << 20),
      "Batches that each rank sums before ranks do: --batch of each, as many times --shards");
  add.flag("--sync-bn", o.model.sync_bn,
           "Batch norm by the mean and variance of the global batch, not of each shard; with "
           "--accumulate of one batch of each rank");
  add.number("--label-smoothing", o.optimizer.label_smoothing, Bounds::at_least(0, 1),
             "Share of the truth that all classes have alike, in training")
      .shapes_weights();
  add.number("--ema", o.optimizer.ema, Bounds::at_least(0, 1),
             "Decay of the weights' moving average, which evaluation uses; 0: none")
      .shapes_weights();
  add_optimizer_options(add, o, optimizer_values);

  add.group("Learning rate");
  add.number("--lr", o.schedule.rate.base, Bounds::above_zero(),
             "Learning rate" + usual_rates(o.schedule.rate.base))
      .shapes_weights();
  add.text("--lr-schedule", o.schedule.rate.schedule, "NAME", "How it changes (see --list)",
           [](const std::string& name) { find(rate_schedules(), name); })
      .shapes_weights();
  add.number("--lr-decay", o.schedule.rate.decay, Bounds::above_zero(),
             "exponential: factor per --lr-decay-epochs")
      .shapes_weights();
  add.number("--lr-decay-epochs", o.schedule.rate.decay_epochs, Bounds::above_zero(),
             "exponential: epochs per factor")
      .shapes_weights();
  add.flag("--lr-smooth", o.schedule.rate.smooth, "exponential: smoothly, not in steps")
      .shapes_weights();
  add.number("--lr-end", o.schedule.rate.end, Bounds::at_least(0),
             "cosine, linear: the rate at the end")
      .shapes_weights();
  add.number(
         "--lr-scale-batch", o.schedule.rate_batch, Bounds::at_least(0),
         "The global batch that --lr is meant for: times global batch / that (the linear scaling "
         "rule); 0: --lr is as it stands")
      .shapes_weights();
  add.number("--warmup-epochs", o.schedule.rate.warmup_epochs, Bounds::at_least(0),
             "Rise linearly from 0 over so many epochs")
      .shapes_weights();

  add.group("Ranks");
  add.text("--reducer", o.ranks.reducer, "NAME",
           "How gradients are summed over the ranks: auto or one of --list",
           [](const std::string& name) { find_reducer(name); });
  add.optional_number("--nccl-max-ctas", o.ranks.nccl_max_ctas, Bounds::at_least(1, kMostCtas),
                      "Thread blocks (CTAs) that NCCL's sums may take from the backward pass "
                      "[NCCL's choice; 4 with --deterministic]");
  add.optional_number("--bucket-mb", o.ranks.bucket_mb, Bounds::above_zero(kLargestBucket),
                      "MiB of gradients that are summed together [1; between hosts with --reducer "
                      "auto so many that bytes take ten times as long as latencies]");
  add.word(
         "--wire", [&o](const std::string& name) { parse_wire(name, o.ranks.wire); },
         [&o] { return name_of(o.ranks.wire); }, "TYPE",
         "Of gradients in messages between hosts: fp32, bf16 or fp16. What rounding takes away is "
         "added to the next step's. With --reducer direct also between ranks of a host")
      .shapes_weights();
  add.text("--progress", o.ranks.progress, "NAME",
           "Who moves the sums on during backward: auto, wait, poll or thread",
           [](const std::string& name) { find(policies(), name); });
  add.text("--device", o.device.name, "NAME", "Where to compute: auto or one of --list",
           [](const std::string& name) { find(devices(), name); });
  add.text("--conv", o.device.convolution, "NAME",
           "How CPU cores convolve: auto, direct, winograd4, ... (--list)",
           [](const std::string& name) { find(convolutions(), name); });
  add.text("--isa", o.device.isa, "NAME",
           "What CPU cores compute with: auto, or no wider a set than avx2, avx512, ... (--list)",
           [](const std::string& name) { find(instruction_sets(), name); });
  add.flag("--deterministic", o.device.deterministic,
           "The same bits in every run like this one, if slower; cpu is always so");
  add.flag("--tf32", o.device.tf32,
           "With fp32 on a GPU: products of 10 bits of mantissa, on tensor cores; sums stay fp32");
  add.flag("--no-graph", o.device.no_graph,
           "Give each step's work anew, where a device could repeat it as a graph: the same bits");
  add.optional_number("--threads", o.device.threads, Bounds::at_least(1),
                      "Threads per rank [the node's cores shared out among its ranks]");
  add.number("--timeout", o.ranks.timeout, Bounds::above_zero(kLongestTime),
             "Seconds without progress after which the run ends with the reason");

  add.group("Reports");
  add.text("--log-dir", o.reports.log_dir, "DIR",
           "Folder for metrics.jsonl and TensorBoard's event file [none]");
  add.text(
      "--trace", o.reports.trace, "FILE",
      "Timeline of all ranks for Chrome or ui.perfetto.dev, written at the end: their last 32768 "
      "spans of compute and as many of communication (2 MiB of memory; fewer from 33 ranks on, "
      "so that all have 2 million) [none]");
  add.number("--log-every", o.reports.log_every, Bounds::at_least(1), "Steps between lines");
  add.number("--summary-every", o.reports.summary_every, Bounds::at_least(0),
             "Steps between histograms of parameters and gradients; 0: never");
  add.number("--eval-every", o.reports.eval_every, Bounds::at_least(0),
             "Steps between evaluations on the test set, with one at the end; 0: never");
  add.flag("--test-views", o.reports.test_views,
           "Evaluate on six views of each image, mirrored and moved by a pixel: the mean of their "
           "logits");
  add.number(
      "--target", o.reports.target, Bounds::at_least(0, 100),
      "End the run when an evaluation has so many per cent of the test set right, and say how "
      "long that took; 0: never");
  add.flag("--epoch-lines", o.reports.epoch_lines,
           "Evaluate after each epoch, with a line of its seconds, loss and accuracy");
  add.number("--verify-every", o.reports.verify_every, Bounds::at_least(0),
             "Steps between comparisons of all ranks' weights; 0: with checkpoints");
  add.flag("--log-device-placement", o.reports.placement,
           "Print each layer's kernel and each rank's host and cores");

  add.group("Checkpoints");
  add.text("--checkpoint-dir", o.checkpoints.dir, "DIR",
           "Folder for checkpoints, step-NNNNNNNNNN.h5 [none]");
  add.word(
      "--checkpoint-every",
      [&o](const std::string& text) { o.checkpoints.every = parse_interval(text); },
      [&o] { return text_of(o.checkpoints.every); }, "INTERVAL",
      "Steps (1000) or time (600s, 10m, 2h) between checkpoints");
  add.number("--keep", o.checkpoints.keep, Bounds::at_least(0),
             "How many of the newest checkpoints stay; 0: all");
  add.text("--resume", o.checkpoints.resume, "HOW",
           "auto: from the newest good checkpoint, if any; never; or a checkpoint file",
           check_resume);

  add.group("Instead of training");
  add.flag("--check", o.check, "Set up and check everything, train nothing");
  add.flag("--list", o.list,
           "List models, data sets, optimizers, schedules, reducers, policies and devices");
  add.flag("--summary", o.summary, "Print the model's layers and their parameters, as Keras does");
}

/// Takes the recipe of the model, but for what the user's own words stand against.
void follow_recipe(OptionSet& set, const Options& o) {
  constexpr std::pair<std::string_view, std::string_view> kSame[] = {
      {"epochs", "--steps"},
      {"steps", "--epochs"},
      {"batch", "--global-batch"},
      {"global-batch", "--batch"},
      {"epoch-lines", "--eval-every"}};
  const bool another = set.given("--optimizer");
  const auto of_optimizer = [](std::string_view name) {
    return name == "lr" || name == "group" ||
           std::any_of(optimizers().begin(), optimizers().end(),
                       [&](const auto& entry) { return declares(entry, name); });
  };
  set.preset(find(models(), o.model.name).recipe, [&](std::string_view name) {
    return (another && of_optimizer(name)) ||
           std::any_of(std::begin(kSame), std::end(kSame), [&](const auto& pair) {
             return pair.first == name && set.given(pair.second);
           });
  });
}

/// What one option's own check cannot see. `given` knows where each of them stands.
void check_together(const Options& o, const OptionSet& given) {
  const auto where = [&](const char* name) { return given.where(name); };
  if (o.schedule.steps > 0 && o.schedule.epochs > 0) {
    fail_usage("{} and {} both say how long to train: give one of them", where("--steps"),
               where("--epochs"));
  }
  if (o.schedule.batch > 0 && o.schedule.global_batch > 0) {
    fail_usage("{}, per rank, and {} say the same: give one of them", where("--batch"),
               where("--global-batch"));
  }
  if (o.schedule.accumulate > 1 && o.schedule.shards > 0) {
    fail_usage("{} and {} both say how many shards there are: give one of them",
               where("--accumulate"), where("--shards"));
  }
  if (const LossScaling scaling = o.loss_scaling(); scaling.scale > scaling.highest) {
    fail_usage("{} {} leaves {} no room: use one of at most {:g}", where("--loss-scale"),
               o.optimizer.loss_scale, where("--clip-norm"), scaling.highest);
  }
  const bool generated = find(datasets(), o.data.dataset).files.empty();
  if (!generated && o.data.folder.empty()) {
    const DatasetEntry& data = find(datasets(), o.data.dataset);
    const std::string what =
        data.own ? std::string(data.files)
                 : fmt::format("scripts/get_data.sh {} downloads them",
                               o.data.dataset == "cifar10_32" ? "cifar10" : o.data.dataset);
    fail_usage("{} {} needs its files: say --data DIR ({})", where("--dataset"), o.data.dataset,
               what);
  }
  if (generated && !o.data.folder.empty()) {
    fail_usage("{} {} is generated: leave {} out", where("--dataset"), o.data.dataset,
               where("--data"));
  }
}

/// What was asked for, other than by default, that does nothing in this run: one line each.
std::vector<std::string> idle_options(const Options& o) {
  const Options d;  // the defaults
  const RateOptions &rate = o.schedule.rate, &usual = d.schedule.rate;
  const bool decays = rate.schedule == "exponential",
             ends = rate.schedule == "cosine" || rate.schedule == "linear",
             every = o.checkpoints.every.steps != d.checkpoints.every.steps ||
                     o.checkpoints.every.seconds != d.checkpoints.every.seconds;
  std::vector<std::string> notes;
  const auto note = [&](bool idle, const char* name, const char* without) {
    if (idle) notes.push_back(fmt::format("{} does nothing without {}", name, without));
  };
  note(!decays && rate.decay != usual.decay, "--lr-decay", "--lr-schedule exponential");
  note(!decays && rate.decay_epochs != usual.decay_epochs, "--lr-decay-epochs",
       "--lr-schedule exponential");
  note(!decays && rate.smooth, "--lr-smooth", "--lr-schedule exponential");
  note(!ends && rate.end != usual.end, "--lr-end", "--lr-schedule cosine or linear");
  note(!o.loss_scaling().dynamic && o.optimizer.loss_scale_steps != d.optimizer.loss_scale_steps,
       "--loss-scale-steps", "--loss-scale dynamic");
  const bool evaluates = o.reports.eval_every > 0 || o.reports.epoch_lines;
  note(o.reports.target > 0 && !evaluates, "--target", "--eval-every or --epoch-lines");
  note(o.reports.test_views && !evaluates, "--test-views", "--eval-every or --epoch-lines");
  note(o.ranks.nccl_max_ctas > 0 && o.ranks.reducer != "auto" && o.ranks.reducer != "nccl",
       "--nccl-max-ctas", "--reducer nccl");
  note(o.reports.log_dir.empty() && o.reports.summary_every > 0 &&
           o.reports.summary_every != d.reports.summary_every,
       "--summary-every", "--log-dir");
  if (o.checkpoints.dir.empty()) {
    note(every, "--checkpoint-every", "--checkpoint-dir");
    note(o.checkpoints.keep != d.checkpoints.keep, "--keep", "--checkpoint-dir");
    note(o.checkpoints.resume == "never", "--resume never", "--checkpoint-dir");
  }
  return notes;
}

template <class Table>
std::string menu(std::string_view title, const Table& table) {
  std::string text = fmt::format("{}\n", title);
  for (const auto& entry : table) text += fmt::format("  {:<18} {}\n", entry.name, entry.about);
  return text;
}

}  // namespace

std::optional<Options> parse_options(int argc, char** argv, const Program& program,
                                     std::string& text_to_print) {
  Options o;
  o.program = program.name;
  CLI::App app(
      "Trains a classifier on the data set " + program.dataset + ": mpirun -np N ./" + program.name,
      program.name);
  OptionSet set(app);
  OptimizerValues optimizer_values;
  add_options(set, o, program, optimizer_values);
  std::string config;
  set.group("Data");
  CLI::Option* config_option =
      app.add_option("--config", config,
                     "TOML file of options: lr = 0.05, batch = 64, ... The command line wins")
          ->type_name("FILE")
          ->group("Data");
  app.set_help_flag("-h,--help", "Print this and exit")->group("Instead of training");
  app.set_version_flag("--version", build_name(), "Print the version and exit")
      ->group("Instead of training");
  app.get_formatter()->column_width(34);
  app.allow_extras();
  check_words(argc, argv);
  try {
    app.parse(argc, argv);
    if (!app.remaining().empty()) fail_extra(app);
  } catch (const CLI::CallForHelp&) {
    text_to_print = help_text(app);
    return std::nullopt;
  } catch (const CLI::CallForVersion& version) {
    text_to_print = fmt::format("{} {}\n", program.name, version.what());
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    fail_usage("{}; --help lists all options", error.what());
  }
  if (config_option->count() > 0) set.read_file(home_path("--config", config));
  o.schedule.seed_given = set.given("--seed");
  o.schedule.batch_given = set.given("--batch") || set.given("--global-batch");
  o.schedule.shards_given = set.given("--shards");
  if (o.list) {
    text_to_print = menus();
    return std::nullopt;
  }
  if (o.data.dataset.empty()) {
    const DatasetEntry* generated = stand_in(program.dataset);
    o.data.dataset = o.data.folder.empty() && generated ? generated->name : program.dataset;
  }
  const DatasetEntry& data = find(datasets(), o.data.dataset);
  if (o.model.as_published && !o.model.name.empty()) {
    fail_usage("--as-published chooses --model {}: leave --model {} out", program.as_published,
               o.model.name);
  }
  if (o.model.as_published) o.model.name = program.as_published;
  if (o.model.name.empty()) o.model.name = data.model;
  follow_recipe(set, o);
  o.schedule.default_steps = data.steps;
  check_together(o, set);
  o.optimizer.own = own_options(o, optimizer_values, set);
  make_optimizer(o.optimizer.name, o.optimizer.own);
  if (!set.given("--lr") && !set.is_preset("--lr"))
    o.schedule.rate.base = find(optimizers(), o.optimizer.name).rate;
  for (const std::string& text : o.optimizer.group_texts)
    o.optimizer.groups.push_back(parse_group(text));
  o.text = set.to_text();
  o.shaping = set.shaping();
  o.notes = idle_options(o);
  return o;
}

LossScaling Options::loss_scaling() const {
  const bool automatic = optimizer.loss_scale == "auto", narrow = model.precision == Type::f16;
  LossScaling scaling = parse_loss_scale(!automatic ? optimizer.loss_scale
                                         : narrow   ? "dynamic"
                                                    : "none",
                                         optimizer.loss_scale_steps);
  if (optimizer.clip_norm > 0) scaling.highest = LossScaling::kHighestClipped;
  return scaling;
}

std::string menus() {
  constexpr std::size_t kAbout = 21;  // where an entry's line begins
  return wrapped(
      menu("models", models()) + menu("data sets", datasets()) + menu("optimizers", optimizers()) +
          menu("learning-rate schedules", rate_schedules()) + menu("reducers", reducers()) +
          menu("progress policies", policies()) + menu("devices", devices()) +
          menu("convolutions", convolutions()) + menu("instruction sets", instruction_sets()),
      kAbout);
}

}  // namespace lockstep
