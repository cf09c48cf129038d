#include "apps/run_plan.h"

#include <cmath>
#include <sstream>

namespace lockstep {
namespace {

/// Throws where a checkpoint called `name` was trained on other samples than these: `before` and
/// `now` are identities of data sets, one file a line.
void require_same_data(const std::string& name, const std::string& before, const std::string& now) {
  std::istringstream old_lines(before), new_lines(now);
  for (std::string was, is; std::getline(old_lines, was);) {
    if (!std::getline(new_lines, is)) is = "missing";
    if (was == is) continue;
    fail_usage(
        "{} was trained on other data: {}, not {}; say --data with the files that it had, or train "
        "anew in another --checkpoint-dir",
        name, is, was.substr(was.find(" = ") + 3));
  }
}

/// Steps done at the end of `epochs` passes over the data, of a run that stands at `start` and goes
/// on with `batch` samples a step.
std::int64_t steps_of(double epochs, std::int64_t dataset_size, const Position& start,
                      std::int64_t batch) {
  const double left =
      epochs * static_cast<double>(dataset_size) - static_cast<double>(start.samples);
  const std::int64_t steps =
      std::max<std::int64_t>(std::llround(left / static_cast<double>(batch)), 0);
  return std::max<std::int64_t>(start.step + steps, 1);
}

}  // namespace

RunPlan plan_run(const Options& o, const Comm& comm, int threads, std::int64_t dataset_size,
                 const std::string& data, const Resumption& resumption) {
  const std::int64_t ranks = comm.size();
  RunPlan plan;
  plan.threads = threads;
  plan.dataset_size = dataset_size;
  plan.seed = o.seed;
  plan.run = resumption.run;
  plan.parent = resumption.parent;
  plan.began = resumption.began;
  plan.notes = resumption.notes;
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
    const auto trained_on = facts.texts.find("data");
    if (trained_on != facts.texts.end()) {
      require_same_data(name, trained_on->second, data);
    } else {
      plan.notes.push_back(fmt::format(
          "{} is of an early version and does not say on which data it was trained", name));
    }
    const std::int64_t batch = number_of(resumption, "global_batch");
    const std::int64_t old_shards = number_of(resumption, "shards");
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

  const std::int64_t default_steps = o.dataset == "synthetic" ? 1000 : 10000;
  plan.steps = o.steps > 0    ? o.steps
               : o.epochs > 0 ? steps_of(o.epochs, dataset_size, plan.start, plan.global_batch)
                              : default_steps;
  return plan;
}

}  // namespace lockstep
