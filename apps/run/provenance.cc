#include "apps/run/provenance.h"

#include <algorithm>

#include "apps/run/trained_data.h"
#include "src/base/check.h"
#include "src/base/machine.h"
#include "src/base/plural.h"
#include "src/base/text.h"

namespace lockstep {
namespace {

/// "2" where `values` are all the same, else all of them in the order of the ranks: "2, 2, 1".
std::string one_or_all(const std::vector<std::string>& values) {
  const bool same = std::all_of(values.begin(), values.end(),
                                [&](const std::string& value) { return value == values.front(); });
  return same ? values.front() : fmt::format("{}", fmt::join(values, ", "));
}

std::string of_all_ranks(const Comm& comm, const std::string& value) {
  const std::vector<std::string> values = comm.gather(value);
  return values.empty() ? value : one_or_all(values);
}

/// A canonical sum is the same for all reducers; any other may depend on all that is named here.
std::string order_of_sums(const Comm& comm, const Options& options, const RunPlan& plan,
                          const TrainingStep& step) {
  const ReducerTraits& reducer = step.reducer().traits();
  if (reducer.canonical) return order_of_shards(plan);
  const bool fewer = reducer.name == "nccl" && options.ranks.nccl_max_ctas > 0;
  return fmt::format("that of {} on {} in buckets of {:g} MiB{}", reducer.name,
                     counted(comm.size(), "rank"), step.bucket_mb(),
                     fewer ? fmt::format(" with {} CTAs", options.ranks.nccl_max_ctas) : "");
}

/// Whether the rate before the end depends on where the end is.
bool looks_at_the_end(const RateOptions& rate) {
  const double middle = rate.warmup_epochs + 1;
  return learning_rate(rate, middle, 2 * middle) != learning_rate(rate, middle, 3 * middle);
}

/// The values of Options::text by name; the last if a name is there twice.
std::map<std::string, std::string> values_of(const std::string& options) {
  std::map<std::string, std::string> values;
  for (auto& [name, value] : named_values(options)) values[name] = std::move(value);
  return values;
}

/// Compares the options that shape the weights.
void compare_options(const std::string& before, const Options& options,
                     std::vector<Change>& changes) {
  const auto then = values_of(before), now = values_of(options.text);
  for (const auto& [name, default_value] : options.shaping) {
    const auto is = now.find(name), kept = then.find(name);
    const std::string& was = kept == then.end() ? default_value : kept->second;
    if (is == now.end() || is->second == was) continue;
    changes.push_back(
        {"--" + name,
         fmt::format("--{} is now {}, not {} as before: this is no longer the same run", name,
                     is->second, was.empty() ? "none" : was)});
  }
}

/// A text of checkpoints that is compared.
struct Compared {
  const char* key;
  const char* option;  ///< Change::option
  const char* note;    ///< Change::note, of the values now and before
};
constexpr Compared kCompared[] = {
    {"global_batch", "--global-batch (which is --batch times the ranks)",
     "the global batch is now {}, not {} as before: this is no longer the same run"},
    {"statistics", "--sync-bn",
     "batch norm has mean and variance of {} now, not of {} as before: this is no longer the same "
     "run"},
    {"shards", "", "now {} shards, not {} as before: weights will differ in the last bits"},
    {"all_threads", "",
     "now {} threads on each rank, not {} as before: weights will differ in the last bits"},
    {"sums", "",
     "the order of sums is now {}, not {} as before: weights will differ in the last bits"},
    {"arithmetic", "",
     "the arithmetic is now {}, not {} as before: weights will differ in the last bits"},
    {"version", "", "this is Lockstep {}, not {} as before: weights may differ in the last bits"}};
constexpr Compared kEnd{"steps", "--steps",
                        "the run now ends at step {}, not {} as before, and --lr-schedule depends "
                        "on it: this is no longer the same run"};

}  // namespace

Provenance provenance(const Comm& comm, const Options& options, const RunPlan& plan,
                      const Device& device, const DatasetPair& data, const TrainingStep& step) {
  Provenance texts = {{"options", options.text},
                      {"version", build_name()},
                      {"threads", std::to_string(plan.threads)},
                      {"all_threads", of_all_ranks(comm, std::to_string(plan.threads))},
                      {"arithmetic", of_all_ranks(comm, device.arithmetic())},
                      {kTuning, device.tuning()},
                      {"sums", order_of_sums(comm, options, plan, step)},
                      {"statistics", step.statistics()},
                      {"steps", std::to_string(plan.steps)},
                      {"model", options.model.name},
                      {"precision", name_of(options.model.precision)},
                      {"dataset", options.data.dataset},
                      {"data", data.identity},
                      {kClassNames, fmt::format("{}", fmt::join(data.class_names, "\n"))},
                      {"global_batch", std::to_string(plan.global_batch)},
                      {"shards", std::to_string(plan.shards)},
                      {"run", plan.run},
                      {"parent", plan.parent},
                      {"began", plan.began}};
  if (const std::string text = normalisation_of(*data.train); !text.empty())
    texts[kNormalisation] = text;
  return texts;
}

std::string order_of_shards(const RunPlan& plan) {
  if (plan.canonical()) return "canonical";
  return fmt::format("that of {} with {} each", counted(plan.ranks(), "rank"),
                     counted(plan.own_shards, "shard"));
}

std::vector<Change> changes(const Provenance& checkpoint, const Provenance& now,
                            const Options& options) {
  Provenance before = checkpoint;
  // The reducer direct was called owners.
  constexpr std::string_view kFormer = "that of owners ";
  if (const auto sums = before.find("sums");
      sums != before.end() && sums->second.starts_with(kFormer))
    sums->second.replace(0, kFormer.size(), "that of direct ");
  std::vector<Change> result;
  if (const auto then = before.find("options"); then != before.end())
    compare_options(then->second, options, result);
  const auto compare = [&](const Compared& text) {
    const auto was = std::as_const(before).find(text.key), is = now.find(text.key);
    if (was == before.end() || is == now.end() || was->second == is->second) return;
    result.push_back({text.option, fmt::format(fmt::runtime(text.note), is->second, was->second)});
  };
  if (looks_at_the_end(options.schedule.rate)) compare(kEnd);
  for (const Compared& text : kCompared) compare(text);
  return result;
}

void require_same_run(const std::string& file, const std::vector<Change>& changes) {
  std::vector<std::string> others;
  for (const Change& change : changes) {
    if (!change.option.empty()) others.push_back(change.option);
  }
  if (others.empty()) return;
  fail_usage(
      "{} is complete, with other values of {}. Pass the options of that run, or choose another "
      "--checkpoint-dir.",
      file, fmt::join(others, ", "));
}

}  // namespace lockstep
