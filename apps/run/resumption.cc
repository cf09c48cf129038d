#include "apps/run/resumption.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "apps/run/trained_data.h"
#include "apps/step/run_plan.h"
#include "src/base/check.h"
#include "src/base/table.h"
#include "src/base/text.h"
#include "src/base/unique.h"
#include "src/data/dataset.h"

namespace lockstep {
namespace {

using nlohmann::json;

// It travels as CBOR: text in JSON must be UTF-8, and the name of a file may be any bytes.
json to_json(const Resumption& r) {
  const Position& p = r.metadata.position;
  return {{"file", r.file ? r.file->string() : ""},
          {"warnings", r.warnings},
          {"notes", r.notes},
          {"run", r.run},
          {"parent", r.parent},
          {"began", r.began},
          {"texts", r.metadata.texts},
          {"initial", r.initial.texts},
          {"step", p.step},
          {"samples", p.samples},
          {"epoch", p.epoch},
          {"seed", p.seed}};
}

Resumption from_json(const json& j) {
  Resumption r;
  const std::string file = j["file"];
  if (!file.empty()) r.file = file;
  r.warnings = j["warnings"].get<std::vector<std::string>>();
  r.notes = j["notes"].get<std::vector<std::string>>();
  r.run = j["run"];
  r.parent = j["parent"];
  r.began = j["began"];
  r.metadata = {{j["step"], j["samples"], j["epoch"], j["seed"]},
                j["texts"].get<std::map<std::string, std::string>>()};
  r.initial.texts = j["initial"].get<std::map<std::string, std::string>>();
  return r;
}

/// Which checkpoint that is, wherever its file lies. Early checkpoints do not name their run.
std::string origin_of(const CheckpointMetadata& metadata) {
  const std::string run = text_of(metadata, "run");
  return fmt::format("{} at step {}", run.empty() ? "a run without a name" : run,
                     metadata.position.step);
}

/// "began" of a run that was started with --resume `file`: which checkpoint that was, and where,
/// for
/// --keep may have removed it since.
std::string began_from(const std::string& origin, const std::filesystem::path& file) {
  // As the checkpoint will give it back.
  return printable(
      fmt::format("{}\n{}", origin, std::filesystem::absolute(file).lexically_normal().string()));
}

/// Whether a run that `began` so was started by this very --resume `file`.
bool is_the_same_start(const std::string& began, const std::filesystem::path& file) {
  const std::string here = began_from("", file);
  if (!began.ends_with(here)) return false;
  std::error_code error;
  return !std::filesystem::exists(file, error) ||
         began == began_from(origin_of(read_metadata(file)), file);
}

void go_on(Resumption& r, const std::filesystem::path& file, CheckpointMetadata metadata) {
  r.file = file;
  r.run = text_of(metadata, "run");
  r.parent = text_of(metadata, "parent");
  r.began = text_of(metadata, "began");
  r.metadata = std::move(metadata);
}

/// A whole number above 0, of the range of an int, among the texts of resumption.file; throws Error
/// that names both.
std::int64_t number_of(const Resumption& resumption, const std::string& name) {
  const std::string text = text_of(resumption.metadata, name.c_str());
  try {
    const std::int64_t value = text.empty() ? 0 : std::stoll(text);
    if (value > 0 && value <= std::numeric_limits<int>::max()) return value;
  } catch (const std::exception&) {
  }
  fail("{} does not say its {}: it was not written by this program", resumption.file->string(),
       name);
}

/// --resume never or `options.checkpoints.resume`, a file, in a folder whose newest checkpoint is
/// `newest`.
void resume_among(Resumption& r, const Options& options, const std::filesystem::path& newest) {
  const std::string& how = options.checkpoints.resume;
  CheckpointMetadata metadata = read_metadata(newest);
  const std::string began = text_of(metadata, "began");
  std::error_code error;
  if (how != "never" && std::filesystem::equivalent(newest, how, error)) {
    const std::string origin = origin_of(metadata);
    go_on(r, newest, std::move(metadata));
    r.began = began_from(origin, how);
    return;
  }
  if (how == "never" ? began == how : is_the_same_start(began, how)) {
    r.notes.push_back(
        fmt::format("--resume {} began this run: it goes on from its newest checkpoint", how));
    return go_on(r, newest, std::move(metadata));
  }
  if (how == "never") {
    fail_usage(
        "{} is in the way: --resume never begins another run, so choose another --checkpoint-dir, "
        "or move the old one away",
        newest.string());
  }
  const bool inside = std::filesystem::equivalent(std::filesystem::path(how).parent_path() / ".",
                                                  options.checkpoints.dir, error);
  fail_usage(
      "{} is in the way: --resume {} begins another line of checkpoints, so choose another "
      "--checkpoint-dir, or move {} away",
      newest.string(), how, inside ? "those of higher steps" : "the old one");
}

void resolve(Resumption& r, const Options& options) {
  const std::string& how = options.checkpoints.resume;
  if (!options.checkpoints.dir.empty()) {
    Newest newest = newest_good(options.checkpoints.dir);
    r.warnings = std::move(newest.warnings);
    if (newest.file && how == "auto") return go_on(r, *newest.file, read_metadata(*newest.file));
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

}  // namespace

Resumption find_resumption(const Comm& comm, const Options& options) {
  std::string text;
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    Resumption r;
    resolve(r, options);
    if (r.run.empty()) r.run = unique_hex(16);
    if (!r.file && !options.model.init.empty()) r.initial = read_metadata(options.model.init);
    json::to_cbor(to_json(r), text);
  });
  return from_json(json::from_cbor(comm.broadcast(text)));
}

Options resumed_options(const Options& options, const Resumption& resumption, int ranks,
                        std::vector<std::string>& notes) {
  Options o = options;
  if (!resumption.file) return o;
  const CheckpointMetadata& metadata = resumption.metadata;
  const std::string name = resumption.file->filename().string();
  const std::string dataset = text_of(metadata, "dataset");
  if (!dataset.empty() && dataset != o.data.dataset) {
    const bool was_generated = find(datasets(), dataset).files.empty();
    fail_usage(
        "{} was trained on {}, not {}: pass --dataset {} {}, or choose another "
        "--checkpoint-dir",
        name, dataset, o.data.dataset, dataset,
        was_generated ? "without --data" : "and its files by --data DIR");
  }
  const std::string model = text_of(metadata, "model");
  if (!model.empty() && model != o.model.name) {
    fail_usage("{} is of model {}, not {}: say --model {}, or choose another --checkpoint-dir",
               name, model, o.model.name, model);
  }
  const std::uint64_t seed = metadata.position.seed;
  if (o.schedule.seed_given && o.schedule.seed != seed) {
    fail_usage(
        "{} was written with --seed {}, not {}: leave --seed out, or choose another "
        "--checkpoint-dir",
        name, seed, o.schedule.seed);
  }
  o.schedule.seed = seed;

  const std::int64_t batch = number_of(resumption, "global_batch"), now = global_batch_of(o, ranks);
  if (now != batch) {
    notes.push_back(
        o.schedule.batch_given
            ? fmt::format(
                  "the global batch is now {}, not {} as before: this is no longer the same run",
                  now, batch)
            : fmt::format("global batch {} as before", batch));
  }
  o.schedule.global_batch = o.schedule.batch_given ? now : batch;

  const std::int64_t shards = number_of(resumption, "shards");
  if (!o.schedule.shards_given) {
    o.schedule.shards = static_cast<int>(shards);
    if (shards % ranks != 0) {
      fail_usage(
          "{} was trained in {} shards, which {} ranks cannot share evenly: start with a number of "
          "ranks that divides {}{}",
          name, shards, ranks, shards,
          o.schedule.global_batch % ranks != 0
              ? ""
              : fmt::format(", or pass --shards {} (weights will then differ in the last bits)",
                            ranks));
    }
    if (o.schedule.accumulate > 1 && shards / ranks != o.schedule.accumulate) {
      notes.push_back(fmt::format(
          "--accumulate {} does nothing: the run goes on in {} shards as before, {} on each rank",
          o.schedule.accumulate, shards, shards / ranks));
    }
  } else if (o.schedule.shards != shards) {
    notes.push_back(
        fmt::format("now {} shards, not {} as before: weights will differ in the last bits",
                    o.schedule.shards, shards));
  }
  if (o.device.threads == 0) o.device.threads = static_cast<int>(number_of(resumption, "threads"));
  return o;
}

}  // namespace lockstep
