#include "apps/run_plan.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

namespace lockstep {
namespace {

using nlohmann::json;

json to_json(const Resumption& r) {
  const Position& p = r.facts.position;
  return {{"file", r.file ? r.file->string() : ""},
          {"warnings", r.warnings},
          {"texts", r.facts.texts},
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
  r.facts = {{j["step"], j["samples"], j["epoch"], j["seed"]},
             j["texts"].get<std::map<std::string, std::string>>()};
  return r;
}

/// A whole number among the texts of a checkpoint.
std::int64_t number(const CheckpointFacts& facts, const std::string& name,
                    const std::filesystem::path& file) {
  const auto found = facts.texts.find(name);
  try {
    const std::int64_t value = found == facts.texts.end() ? 0 : std::stoll(found->second);
    if (value > 0) return value;
  } catch (const std::exception&) {
  }
  fail("{} does not say its {}: it was not written by this program", file.string(), name);
}

/// The options that shape the weights, as far as they are now others than in the checkpoint's: one
/// note each.
std::vector<std::string> changed_options(const std::string& before, const std::string& now) {
  static const std::regex line(
      "(precision|optimizer|momentum|nesterov|weight-decay|ema|lr[a-z-]*|warmup-epochs)=(.*)");
  std::map<std::string, std::string> values;
  std::istringstream old_lines(before), new_lines(now);
  std::smatch match;
  for (std::string text; std::getline(old_lines, text);) {
    if (std::regex_match(text, match, line)) values[match[1]] = match[2];
  }
  std::vector<std::string> notes;
  for (std::string text; std::getline(new_lines, text);) {
    if (!std::regex_match(text, match, line)) continue;
    const auto found = values.find(match[1]);
    if (found == values.end() || found->second == match[2]) continue;
    notes.push_back(fmt::format("--{} is now {}, not {} as before: this is no longer the same run",
                                match[1].str(), match[2].str(), found->second));
  }
  return notes;
}

}  // namespace

Resumption find_resumption(const Comm& comm, const Options& options) {
  std::string text;
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    Resumption r;
    if (options.resume == "auto" && !options.checkpoint_dir.empty()) {
      Newest newest = newest_good(options.checkpoint_dir);
      r.file = newest.file;
      r.warnings = newest.warnings;
    } else if (options.resume != "auto" && options.resume != "never") {
      verify_checkpoint(options.resume);
      r.file = options.resume;
    }
    if (r.file) r.facts = read_facts(*r.file);
    text = to_json(r).dump();
  });
  return from_json(json::parse(comm.broadcast(text)));
}

int wanted_threads(const Options& options, const Resumption& resumption) {
  if (options.threads > 0 || !resumption.file) return options.threads;
  return static_cast<int>(number(resumption.facts, "threads", *resumption.file));
}

RunPlan plan_run(const Options& o, const Comm& comm, int threads, std::int64_t dataset_size,
                 const Resumption& resumption) {
  const std::int64_t ranks = comm.size();
  RunPlan plan;
  plan.threads = threads;
  plan.dataset_size = dataset_size;
  plan.seed = o.seed;
  const std::int64_t default_batch = std::max<std::int64_t>(128 / ranks, 1);
  plan.global_batch =
      o.global_batch > 0 ? o.global_batch : (o.batch > 0 ? o.batch : default_batch) * ranks;
  std::int64_t shards = o.shards > 0 ? o.shards : ranks;

  if (resumption.file) {
    const CheckpointFacts& facts = resumption.facts;
    const std::string name = resumption.file->filename().string();
    plan.start = facts.position;
    const auto model = facts.texts.find("model");
    if (model != facts.texts.end() && model->second != o.model) {
      fail_usage("{} is of model {}, not {}: say --model {}, or choose another --checkpoint-dir",
                 name, model->second, o.model, model->second);
    }
    if (o.seed_given && o.seed != plan.start.seed) {
      fail_usage(
          "{} was written with --seed {}, not {}: leave --seed out, or choose another "
          "--checkpoint-dir",
          name, plan.start.seed, o.seed);
    }
    plan.seed = plan.start.seed;
    const auto dataset = facts.texts.find("dataset");
    if (dataset != facts.texts.end() && dataset->second != o.dataset) {
      fail_usage("{} was trained on {}, not {}: {}, or choose another --checkpoint-dir", name,
                 dataset->second, o.dataset,
                 o.data.empty() ? "say --data DIR" : "leave --data out");
    }
    const auto options = facts.texts.find("options");
    if (options != facts.texts.end()) plan.notes = changed_options(options->second, o.text);
    const std::int64_t old_threads = number(facts, "threads", *resumption.file);
    if (threads != old_threads) {
      plan.notes.push_back(
          fmt::format("now {} threads on each rank, not {} as before: weights will differ in the "
                      "last bits (--threads {} keeps them)",
                      threads, old_threads, old_threads));
    }
    const std::int64_t batch = number(facts, "global_batch", *resumption.file);
    const std::int64_t old_shards = number(facts, "shards", *resumption.file);
    if (o.batch_given && plan.global_batch != batch) {
      plan.notes.push_back(fmt::format(
          "the global batch is now {}, not {} as before: this is no longer the same run",
          plan.global_batch, batch));
    } else {
      if (plan.global_batch != batch)
        plan.notes.push_back(fmt::format("global batch {} as before", batch));
      plan.global_batch = batch;
    }
    if (o.shards_given && shards != old_shards) {
      plan.notes.push_back(
          fmt::format("now {} shards, not {} as before: weights will differ in the last bits",
                      shards, old_shards));
    } else {
      shards = old_shards;
      if (shards % ranks != 0) {
        fail_usage(
            "{} was trained in {} shards, which {} ranks cannot share evenly: start with a number "
            "of ranks that divides "
            "{}, or say --shards {} (weights will then differ in the last bits)",
            name, shards, ranks, shards, ranks);
      }
    }
  }

  if (shards % ranks != 0) {
    fail_usage("--shards {} cannot be shared evenly by {} ranks: use a multiple of {}", shards,
               ranks, ranks);
  }
  if (plan.global_batch % shards != 0) {
    fail_usage(
        "a global batch of {} cannot be cut into {} equal shards: use a multiple of {}, for "
        "example --global-batch {}",
        plan.global_batch, shards, shards, (plan.global_batch / shards + 1) * shards);
  }
  plan.shards = static_cast<int>(shards);
  plan.own_shards = static_cast<int>(shards / ranks);
  plan.first_shard = plan.own_shards * comm.rank();
  plan.shard_batch = plan.global_batch / shards;

  const double per_epoch =
      static_cast<double>(dataset_size) / static_cast<double>(plan.global_batch);
  const std::int64_t default_steps = o.dataset == "synthetic" ? 1000 : 10000;
  plan.steps = o.steps > 0    ? o.steps
               : o.epochs > 0 ? std::max<std::int64_t>(std::llround(o.epochs * per_epoch), 1)
                              : default_steps;
  return plan;
}

}  // namespace lockstep
