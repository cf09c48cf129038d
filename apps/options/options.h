// Everything a user can ask of a training program, in one place: defaults here, names and help in
// options.cc.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "net/loss_scale.h"
#include "net/optimizer.h"
#include "net/parameter_groups.h"
#include "net/rate.h"
#include "src/base/view.h"
#include "src/data/dataset.h"

namespace lockstep {

/// When to write a checkpoint: every `steps` steps or every `seconds` seconds, whichever is set;
/// neither: only at the end.
struct CheckpointInterval {
  std::int64_t steps = 0;
  double seconds = 0;
};

/// --crop-padding auto: that of the data set itself.
inline constexpr int kOwnPadding = -1;

/// A training program: its name, and the data set that it trains on where --data is given; where
/// it is not, that set's stand-in.
struct Program {
  std::string name;
  std::string dataset = "cifar10";
  /// The model that --as-published chooses; empty: there is no such option.
  std::string as_published = {};
};

/// MiB of a bucket where nobody says and no link between hosts is known.
inline constexpr double kUsualBucketMb = 1;

struct DataOptions {
  std::string dataset;  ///< as read, always one of the menu
  std::string folder;   ///< of its files; empty: it is generated
  int crop_padding = kOwnPadding;
  bool alternate_flips = false;
  Mixing mixing;
};

struct ModelOptions {
  std::string name;  ///< as read, always one of the menu; the default is the data set's
  Type precision = Type::f32;
  std::string init;      ///< a checkpoint whose weights the run begins with; empty: random ones
  bool sync_bn = false;  ///< batch norm uses the mean and variance of all shards
  bool as_published = false;
};

/// How gradients become steps.
struct UpdateOptions {
  std::string name = "sgd";
  OptimizerOptions own;  ///< all that this optimizer declares, and no other's
  float label_smoothing = 0;
  float clip_norm = 0;                   ///< 0: gradients are not clipped
  std::string loss_scale = "auto";       ///< auto, none, dynamic, dynamic:FIRST, or a number
  std::int32_t loss_scale_steps = 2000;  ///< LossScaling::growth_steps
  float weight_decay = 0;                ///< of all weights, besides their model's own
  std::vector<std::string> group_texts;  ///< --group as given
  std::vector<ParameterGroup> groups;
  float ema = 0.9999f;  ///< 0: no average is kept
};

/// How long to train, on which batches, and at which learning rate.
struct ScheduleOptions {
  std::int64_t steps = 0;             ///< 0: set by epochs, or by the data set's default
  double epochs = 0;                  ///< 0: set by steps
  std::int64_t default_steps = 1000;  ///< the data set's
  /// Samples per rank and step; 0: 128 for the whole run, as in the tutorial.
  std::int64_t batch = 0;
  std::int64_t global_batch = 0;  ///< samples of all ranks per step; 0: batch * ranks
  /// Parts of the global batch whose gradients are added in one fixed tree; 0: one per rank.
  int shards = 0;
  int accumulate = 1;  ///< shards of each rank if shards is 0
  std::uint64_t seed = 1;
  RateOptions rate;
  std::int64_t rate_batch = 0;  ///< global batch that rate.base is meant for; 0: any
  /// Set on the command line or in the config file: a resumed run takes the others from its
  /// checkpoint.
  bool seed_given = false, batch_given = false, shards_given = false;
};

struct RankOptions {
  std::string reducer = "auto";
  double bucket_mb = 0;   ///< 0: kUsualBucketMb, or what suits the link between hosts
  Type wire = Type::f32;  ///< of the numbers in messages between hosts
  std::string progress = "auto";
  double timeout = 60;    ///< seconds without progress after which the run ends with a reason
  int nccl_max_ctas = 0;  ///< of an all-reduce of NCCL; 0: its own choice
};

struct ComputeOptions {
  std::string name = "auto";
  std::string convolution = "auto";
  std::string isa = "auto";
  bool deterministic = false;
  bool tf32 = false;
  bool no_graph = false;
  int threads = 0;  ///< per rank; 0: the node's cores divided by its ranks
};

struct ReportOptions {
  std::string log_dir;  ///< empty: none
  std::string trace;    ///< file; empty: none
  std::int64_t log_every = 10, summary_every = 100, eval_every = 1000, verify_every = 1000;
  bool test_views = false;   ///< evaluations see each image six times (apps/run/test_views.h)
  double target = 0;         ///< test accuracy in per cent at which the run ends; 0: none
  bool epoch_lines = false;  ///< an evaluation and a line at the end of each epoch
  bool placement = false;    ///< each layer's kernel, each rank's host and cores
};

struct CheckpointOptions {
  std::string dir;  ///< empty: none
  CheckpointInterval every{0, 600};
  int keep = 3;
  std::string resume = "auto";  ///< auto, never, or a file
};

struct Options {
  std::string program;  ///< "train_cifar"
  DataOptions data;
  ModelOptions model;
  UpdateOptions optimizer;
  ScheduleOptions schedule;
  RankOptions ranks;
  ComputeOptions device;
  ReportOptions reports;
  CheckpointOptions checkpoints;

  bool check = false;
  bool list = false;
  bool summary = false;

  std::string text;  ///< all of the above as lines "name=value", which --config reads back
  /// The options that shape the weights, and the default of each as it stands in `text`.
  std::map<std::string, std::string> shaping;
  std::vector<std::string> notes;  ///< options that do nothing in this run, one line each

  /// What loss_scale means with this precision.
  LossScaling loss_scaling() const;
};

/// Reads the command line of `program`. Returns nothing where all is said already (--help,
/// --version): `text_to_print` then holds what rank 0 should print. Throws Error (kExitUsage) with
/// the nearest option's name, the file and line of a config file, or the range that a value must be
/// in.
std::optional<Options> parse_options(int argc, char** argv, const Program& program,
                                     std::string& text_to_print);

/// The menus of models, data sets, optimizers, schedules, reducers, policies,
/// devices, convolutions and instruction sets, for --list.
std::string menus();

}  // namespace lockstep
