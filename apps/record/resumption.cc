#include "apps/record/resumption.h"

#include <limits>

#include "apps/record/broadcast.h"
#include "apps/record/checkpoint_use.h"
#include "apps/record/run_facts.h"
#include "net/description/network_file.h"
#include "net/initial_weights.h"
#include "src/base/check.h"
#include "src/base/table.h"
#include "src/base/text.h"
#include "src/data/dataset.h"

namespace lockstep {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Resumption, file, metadata, init, initial, warnings, notes, run,
                                   parent, began)

namespace {

/// Identifies a checkpoint, whatever the path of its file.
std::string origin_of(const CheckpointMetadata& metadata) {
  return fmt::format("{} at step {}", text_of(metadata, "run"), metadata.position.step);
}

/// "began" of a run that was started with --resume `file`: its origin, and its path because --keep
/// may have removed the file since. Printable, because texts of a checkpoint are.
std::string began_from(const std::string& origin, const std::filesystem::path& file) {
  return printable(
      fmt::format("{}\n{}", origin, std::filesystem::absolute(file).lexically_normal().string()));
}

/// Whether a run with this "began" was started by the same --resume `file`.
bool is_the_same_start(const std::string& began, const std::filesystem::path& file) {
  const std::string here = began_from("", file);
  if (!began.ends_with(here)) return false;
  std::error_code error;
  return !std::filesystem::exists(file, error) ||
         began == began_from(origin_of(read_metadata(file)), file);
}

void resume_from(Resumption& r, const std::filesystem::path& file, CheckpointMetadata metadata) {
  r.file = file.string();
  r.run = text_of(metadata, "run");
  r.parent = text_of(metadata, "parent");
  r.began = text_of(metadata, "began");
  r.metadata = std::move(metadata);
}

/// The text `name` of resumption.file as a positive int; throws Error that names both.
std::int64_t number_of(const Resumption& resumption, const std::string& name) {
  const std::string text = text_of(resumption.metadata, name.c_str());
  try {
    const std::int64_t value = text.empty() ? 0 : std::stoll(text);
    if (value > 0 && value <= std::numeric_limits<int>::max()) return value;
  } catch (const std::exception&) {
  }
  fail("{} has no valid {}: it was not written by this program. Use another file.", resumption.file,
       name);
}

/// --resume never or FILE, with a folder whose newest checkpoint is `newest`.
void resume_among(Resumption& r, const Options& options, const std::filesystem::path& newest) {
  const std::string& how = options.checkpoints.resume;
  CheckpointMetadata metadata = read_metadata(newest);
  const std::string began = text_of(metadata, "began");
  std::error_code error;
  if (how != "never" && std::filesystem::equivalent(newest, how, error)) {
    const std::string origin = origin_of(metadata);
    resume_from(r, newest, std::move(metadata));
    r.began = began_from(origin, how);
    return;
  }
  if (how == "never" ? began == how : is_the_same_start(began, how)) {
    r.notes.push_back(fmt::format(
        "--resume {} began this run, which now resumes from its newest checkpoint", how));
    return resume_from(r, newest, std::move(metadata));
  }
  const bool inside =
      how != "never" && std::filesystem::equivalent(std::filesystem::path(how).parent_path() / ".",
                                                    options.checkpoints.dir, error);
  fail_usage("--resume {}: the folder already contains checkpoints of another run ({}). Use {}{}.",
             how, newest.string(), options.elsewhere(),
             inside ? ", or move those of higher steps away" : "");
}

void resolve(Resumption& r, const Options& options) {
  const std::string& how = options.checkpoints.resume;
  if (!options.checkpoints.dir.empty()) {
    Newest newest = newest_good(options.checkpoints.dir);
    r.warnings = std::move(newest.warnings);
    if (newest.file && how == "auto")
      return resume_from(r, *newest.file, read_metadata(*newest.file));
    if (newest.file) return resume_among(r, options, *newest.file);
  }
  r.began = how;
  if (how == "auto" || how == "never") return;
  verify_checkpoint(how);
  r.file = how;
  r.metadata = read_metadata(how);
  r.parent = origin_of(r.metadata);
  r.began = began_from(r.parent, how);
}

/// Throws the usage Error if `o` describe another run than `metadata` of the file called `name`.
void require_same(const Options& o, const CheckpointMetadata& metadata, const std::string& name) {
  const std::string dataset = text_of(metadata, "dataset"), model = text_of(metadata, "model");
  if (!dataset.empty() && dataset != o.data.dataset) {
    const bool was_generated = find(datasets(), dataset).files.empty();
    fail_usage("{} was trained on {}, not {}. Pass --dataset {} {}, or use {}.", name, dataset,
               o.data.dataset, dataset, was_generated ? "without --data" : "with its --data DIR",
               o.elsewhere());
  }
  const std::string network = text_of(metadata, kNetwork);
  if (network.empty() != o.model.network.empty()) {
    fail_usage(
        "{} contains model {} {} a file, not --model {}. Pass the --model of its run, or use {}.",
        name, model, network.empty() ? "without" : "of", o.model.given, o.elsewhere());
  }
  if (const std::string other = network_difference(network, o.model.network); !other.empty()) {
    fail_usage("{} contains another network than --model {}: {}. Restore the file, or use {}.",
               name, o.model.given, other, o.elsewhere());
  }
  if (!model.empty() && model != o.model.name && network.empty()) {
    fail_usage("{} contains model {}, not {}. Pass --model {}, or use {}.", name, model,
               o.model.name, model, o.elsewhere());
  }
  if (o.schedule.seed_given && o.schedule.seed != metadata.position.seed) {
    fail_usage("{} was written with --seed {}, not {}. Omit --seed, or use {}.", name,
               metadata.position.seed, o.schedule.seed, o.elsewhere());
  }
}

}  // namespace

std::string text_of(const CheckpointMetadata& metadata, const char* name) {
  const auto found = metadata.texts.find(name);
  return found == metadata.texts.end() ? "" : found->second;
}

Resumption find_resumption(const Comm& comm, const Options& options) {
  Resumption r;
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    resolve(r, options);
    if (r.run.empty()) r.run = unique_hex(16);
    if (!r.file.empty() || options.model.init.empty()) return;
    r.init = options.model.init;
    if (const auto folder = checkpoint_folder(r.init); !folder.empty()) {
      const auto warn = [&](const std::string& text) { r.warnings.push_back(text); };
      r.init = open_checkpoint(r.init, warn)->file().string();
      r.notes.push_back(fmt::format("--init {} is {}", options.model.init, r.init));
    }
    r.initial = initial_metadata(r.init);
  });
  return broadcast_object(comm, r);
}

RunShape resumed_shape(const Options& o, const Resumption& resumption, int ranks,
                       std::vector<std::string>& notes) {
  RunShape shape = shape_of(o, ranks);
  if (resumption.file.empty()) return shape;
  const std::string name = std::filesystem::path(resumption.file).filename();
  require_same(o, resumption.metadata, name);
  shape.seed = resumption.metadata.position.seed;

  const std::int64_t batch = number_of(resumption, "global_batch");
  if (!o.schedule.batch_given && shape.global_batch != batch) {
    notes.push_back(fmt::format("global batch {}, from the checkpoint", batch));
    shape.global_batch = batch;
  }
  const auto shards = static_cast<int>(number_of(resumption, "shards"));
  if (!o.schedule.shards_given) {
    if (shards % ranks != 0) {
      fail_usage(
          "{} was trained with {} shards, which {} ranks cannot share evenly. Start a number of "
          "ranks that divides {}{}.",
          name, shards, ranks, shards,
          shape.global_batch % ranks != 0
              ? ""
              : fmt::format(", or pass --shards {} (the last bits of weights will differ)", ranks));
    }
    if (o.schedule.accumulate > 1 && shards / ranks != o.schedule.accumulate) {
      notes.push_back(
          fmt::format("--accumulate {} does nothing: the checkpoint has {} shards, {} on each rank",
                      o.schedule.accumulate, shards, shards / ranks));
    }
    shape.shards = shards;
  }
  if (shape.threads == 0) shape.threads = static_cast<int>(number_of(resumption, "threads"));
  return shape;
}

}  // namespace lockstep
