// The options that a training step depends on. Each struct declares the row of each of its options.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

#include "collectives/buckets.h"
#include "collectives/reducer.h"
#include "net/model_options.h"
#include "net/optimizer.h"
#include "net/rate.h"
#include "net/update_options.h"
#include "src/base/machine.h"
#include "src/base/option_rows.h"
#include "src/base/table.h"
#include "src/base/text.h"
#include "src/base/view.h"
#include "src/data/data_options.h"
#include "src/data/dataset.h"
#include "src/device/cpu/arithmetic.h"
#include "src/device/cpu/convolution.h"
#include "src/device/cpu/instruction_set.h"
#include "src/device/devices.h"

namespace lockstep {

/// Shards of a global batch.
inline constexpr int kMostShards = 1 << 20;

/// The length of the run, its batches and its learning rate.
struct ScheduleOptions {
  std::int64_t steps = 0;             ///< 0: set by epochs, or by the data set's default
  double epochs = 0;                  ///< 0: set by steps
  std::int64_t default_steps = 1000;  ///< the data set's
  std::int64_t batch = 0;             ///< samples per rank and step; 0: 128 / ranks
  std::int64_t global_batch = 0;      ///< samples of all ranks per step; 0: batch * ranks
  /// Parts of the global batch whose gradients are added in one fixed tree; 0: one per rank.
  int shards = 0;
  int accumulate = 1;       ///< shards of each rank if shards is 0
  bool fits_batch = false;  ///< global_batch becomes the nearest multiple of the shards
  std::uint64_t seed = 1;
  RateOptions rate;
  std::int64_t rate_batch = 0;  ///< global batch that rate.base is meant for; 0: any
  /// Set on the command line or in the config file: a resumed run takes the others from its
  /// checkpoint.
  bool seed_given = false, batch_given = false, shards_given = false;

  /// `by_default`: the data set that the program trains on.
  void declare(OptionRows& rows, const DatasetEntry& by_default) {
    const DatasetEntry* generated = stand_in(by_default.name);
    rows.group("Training");
    rows.optional_number(
            "--steps", steps, Bounds::at_least(1),
            fmt::format(
                "Training steps [{}{}]", by_default.steps,
                generated ? fmt::format("; {} on the generated set", generated->steps) : ""))
        .common()
        .excludes("--epochs", "length of the run")
        .example("1000")
        .also_called({"max-steps", "num-steps"});
    rows.optional_number("--epochs", epochs, Bounds::above_zero(),
                         "Passes over the training set, instead of --steps")
        .common()
        .example("10")
        .also_called({"max-epochs", "num-epochs"});
    rows.optional_number("--batch", batch, Bounds::at_least(1),
                         "Samples per rank and step [128 / ranks]")
        .common()
        .excludes("--global-batch", "batch")
        .example("64")
        .also_called({"batch-size"});
    rows.optional_number("--global-batch", global_batch, Bounds::at_least(1),
                         "Samples per step on all ranks together [batch * ranks]")
        .common()
        .example("256");
    rows.optional_number("--shards", shards, Bounds::at_least(1, kMostShards),
                         "Shards of the global batch, summed in one fixed order [ranks]\n"
                         "The same number of shards gives bitwise identical weights on any number "
                         "of ranks up to it. 24 and 60 suit most numbers.")
        .example("24 --global-batch 192");
    rows.number("--accumulate", accumulate, Bounds::at_least(1, 1 << 20),
                "Gradient accumulation: micro-batches per rank and step\n"
                "Each has --batch samples. The number of shards grows by the same factor.")
        .excludes("--shards", "number of shards")
        .example("4")
        .also_called(
            {"accumulate-grad-batches", "grad-accum-steps", "gradient-accumulation-steps"});
    rows.number("--seed", seed, Bounds::at_least(0),
                "Random seed for initial weights, sample order and augmentation")
        .common()
        .example("2");
    declare_rate(rows);
  }

  /// After the rows are read. `optimizer`: its rate is the default.
  void finish(OptionRows& rows, const OptimizerEntry& optimizer) {
    seed_given = rows.at("--seed").given();
    batch_given = rows.at("--batch").given() || rows.at("--global-batch").given();
    fits_batch = rows.at("--global-batch").source == OptionRow::Source::recipe;
    shards_given = rows.at("--shards").given();
    if (rows.at("--lr").source == OptionRow::Source::initial) rate.base = optimizer.rate;
  }

 private:
  void declare_rate(OptionRows& rows) {
    std::string others;  // "; adam 0.001": optimizers with another default
    for (const OptimizerEntry& entry : optimizers()) {
      if (entry.rate != rate.base) others += fmt::format("; {} {:g}", entry.name, entry.rate);
    }
    const std::string brackets = others.empty() ? "" : fmt::format(" [{}]", others.substr(2));
    rows.group("Learning rate", /*shapes_weights=*/true);
    rows.number("--lr", rate.base, Bounds::above_zero(),
                "Learning rate" + brackets +
                    "\nFactor of each update of the weights. --lr-schedule lowers it during the "
                    "run.\n"
                    "If the loss rises or becomes NaN, pass a third of it. If the loss falls "
                    "slowly, pass three times as much.\n"
                    "A rate fits one batch size. For twice the batch pass twice the rate, or let "
                    "--lr-scale-batch do that. A large rate needs --warmup-epochs.")
        .common()
        .follows("--optimizer")
        .example("0.03 --lr-schedule cosine")
        .also_called({"learning-rate"});
    rows.add(
            "--lr-schedule", OptionRow::Type::text,
            [this](const std::string& text) { rate.choose(text); }, [this] { return rate.text(); },
            "NAME",
            "Learning-rate schedule (see --list)\n"
            "exponential:FACTOR@EPOCHS multiplies the rate by FACTOR after every EPOCHS epochs. "
            "exponential:FACTOR@EPOCHS:smooth does so little by little.")
        .suggests(names_of(rate_schedules()))
        .common()
        .example("cosine")
        .also_called({"lr-scheduler", "sched"});
    rows.number("--lr-end", rate.end, Bounds::at_least(0),
                "Final learning rate, with --lr-schedule cosine or linear")
        .only_with("--lr-schedule cosine or linear", [this] { return rate.has_end(); })
        .example("0.001");
    rows.number("--lr-scale-batch", rate_batch, Bounds::at_least(0),
                "Global batch that --lr is meant for; 0: no scaling\n"
                "The rate is --lr times the global batch, divided by this (linear scaling rule).")
        .follows("--lr")
        .example("128 --global-batch 512");
    rows.number("--warmup-epochs", rate.warmup_epochs, Bounds::at_least(0),
                "Epochs of linear warm-up from 0")
        .example("5")
        .also_called({"lr-warmup-epochs"});
  }
};

/// MiB of a bucket on CPU cores if neither --bucket-mb nor a link between hosts sets them.
inline constexpr double kDefaultBucketMb = 1;

/// The numbers of a list such as "3,3,2", or none for "equal" and "auto". Throws the usage Error.
std::vector<int> parse_shares(const std::string& text);

/// The all-reduce, and the time that ranks wait for each other.
struct RankOptions {
  std::string reducer = "auto";
  double bucket_mb = 0;   ///< 0: kDefaultBucketMb, or what suits the device or the hosts' link
  Type wire = Type::f32;  ///< the type of numbers in messages between hosts
  std::string progress = "auto";
  double timeout = 60;  ///< seconds without progress after which the run ends with a reason
  /// Thread blocks of NCCL's all-reduce; 0: 8, between hosts NCCL's choice, and 4 with
  /// --deterministic. LOCKSTEP_NCCL_MAX_CTAS, for debugging, is the same on all ranks.
  int nccl_max_ctas = 0;
  std::vector<int> shares_of_ranks;  ///< empty: as equal as possible
  bool tunes_shares = false;         ///< by the speeds of the ranks

  /// Those of `shards` on `ranks`. Throws a usage Error if the option has other numbers of them.
  Shares shares(int shards, int ranks) const;

  void declare(OptionRows& rows) {
    constexpr double kLargestBucket = 1 << 20;  // MiB: more than any model has
    rows.group("Ranks");
    rows.text("--reducer", reducer, "NAME", "All-reduce of the gradients (see --list)",
              [](const std::string& name) { find_reducer(name); })
        .suggests(names_of(reducers()));
    rows.optional_number("--bucket-mb", bucket_mb, Bounds::above_zero(kLargestBucket),
                         "Size of a gradient bucket in MiB [1; measured between hosts]\n"
                         "On GPUs the default is an eighth of all gradients, from 1 to 8 MiB.\n"
                         "Between hosts, --reducer auto chooses the size at which bytes take ten "
                         "times as long as latencies.")
        .example("4");
    rows.add(
            "--shares", OptionRow::Type::text,
            [this](const std::string& text) {
              tunes_shares = text == "auto";
              shares_of_ranks = parse_shares(text);
            },
            [this] {
              if (tunes_shares) return std::string("auto");
              return shares_of_ranks.empty() ? "equal" : joined(shares_of_ranks, ",");
            },
            "equal|auto|LIST",
            "Shards of each rank: equal, by speed, or such as 3,3,2,2,2\n"
            "No bit of the weights depends on it. auto measures the ranks while they train, and "
            "gives slow ones fewer shards. It needs more shards than ranks, such as --shards 24.")
        .example("auto --shards 32");
    rows.type("--wire", wire,
              "Type of gradients in messages between hosts: fp32, bf16 or fp16\n"
              "Error feedback adds the rounding error to the next step's gradients. With --reducer "
              "direct the type also applies between ranks of a host.",
              {"fp32", "bf16", "fp16"})
        .shapes_weights();
    rows.entry("--progress", progress, "Progress of the all-reduce during backward (see --list)",
               policies());
    rows.number("--timeout", timeout, Bounds::above_zero(kLongestTime),
                "Seconds without progress before the run ends with an error");
  }
};

/// The device that a rank computes on. threads 0: the node's cores divided by its ranks.
struct ComputeOptions : DeviceOptions {
  std::string name = "auto";
  bool no_graph = false;  ///< LOCKSTEP_GRAPH=off, for debugging: the results are the same

  void declare(OptionRows& rows) {
    rows.group("Ranks");
    rows.text("--device", name, "NAME", "Device (see --list)",
              [](const std::string& device) { find_device(device); })
        .suggests(names_of(devices()))
        .also_called({"cpu cpu", "no-cuda cpu"});
    rows.entry("--conv", convolution, "Convolution kernels of CPU cores (see --list)",
               convolutions());
    rows.entry("--arithmetic", arithmetic,
               "Arithmetic of CPU cores in fp32 (see --list)\n"
               "It has no effect on GPUs and on activations of 16 bits.",
               arithmetics());
    rows.entry("--isa", isa, "Widest instruction set of CPU cores (see --list)",
               instruction_sets());
    rows.flag("--deterministic", deterministic,
              "Deterministic kernels, which may be slower\n"
              "The device cpu is always deterministic.");
    rows.flag("--tf32", tf32,
              "TF32 tensor cores for fp32 on GPUs\n"
              "Factors keep 10 bits of mantissa. Sums stay fp32.");
    rows.optional_number("--threads", threads, Bounds::at_least(1),
                         "Threads per rank [an equal share of the node's cores]")
        .common()
        .example("2");
  }
};

struct StepOptions {
  DataOptions data;
  ModelOptions model;
  UpdateOptions optimizer;
  ScheduleOptions schedule;
  RankOptions ranks;
  ComputeOptions device;

  /// Reads the variables for debugging. Throws the usage error.
  void read_environment() {
    constexpr const char* kCtas = "LOCKSTEP_NCCL_MAX_CTAS";
    constexpr double kMostCtas = 64;  // NCCL's channels
    device.no_graph = !switched_on("LOCKSTEP_GRAPH");
    if (const char* most = std::getenv(kCtas))
      ranks.nccl_max_ctas = parse_number<int>(kCtas, most, Bounds::at_least(1, kMostCtas));
  }
};

}  // namespace lockstep
