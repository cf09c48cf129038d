#include "apps/run/circumstances.h"

#include <algorithm>
#include <sstream>

#include "src/base/check.h"
#include "src/base/machine.h"
#include "src/base/plural.h"

namespace lockstep {
namespace {

/// Of what batch norm has mean and variance (TrainingStep::statistics).
constexpr const char* kStatistics = "statistics";

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

/// Lines "name=value" (Options::text) by name.
std::map<std::string, std::string> values_of(const std::string& options) {
  std::map<std::string, std::string> values;
  std::istringstream lines(options);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find('=');
    if (equals != std::string::npos) values[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return values;
}

struct ChangedOption {
  std::string name, is, was;  ///< without --; as Options::text has it; empty: not set
};

/// The options that shape the weights, as far as they are now others. One that the checkpoint does
/// not know was then what it is where nobody says another.
std::vector<ChangedOption> changed_options(const Circumstances& checkpoint,
                                           const Options& options) {
  const auto before = checkpoint.find("options");
  if (before == checkpoint.end()) return {};
  const auto then = values_of(before->second), now = values_of(options.text);
  std::vector<ChangedOption> changed;
  for (const auto& [name, usual] : options.shaping) {
    const auto is = now.find(name), kept = then.find(name);
    const std::string& was = kept == then.end() ? usual : kept->second;
    if (is != now.end() && is->second != was) changed.push_back({name, is->second, was});
  }
  return changed;
}

/// No checkpoint had statistics in common before --sync-bn.
Circumstances with_statistics(Circumstances checkpoint, const Circumstances& now) {
  if (const auto is = now.find(kStatistics); is != now.end() && !is->second.empty())
    checkpoint.try_emplace(kStatistics, kOfEachShard);
  // The reducer direct had another name.
  constexpr std::string_view kFormer = "that of owners ";
  if (const auto sums = checkpoint.find("sums");
      sums != checkpoint.end() && sums->second.starts_with(kFormer))
    sums->second.replace(0, kFormer.size(), "that of direct ");
  return checkpoint;
}

}  // namespace

Circumstances circumstances(const Comm& comm, const Options& options, const RunPlan& plan,
                            const Device& device, const TrainingStep& step) {
  return {{"options", options.text},
          {"version", build_name()},
          {"threads", std::to_string(plan.threads)},
          {"all_threads", of_all_ranks(comm, std::to_string(plan.threads))},
          {"arithmetic", of_all_ranks(comm, device.arithmetic())},
          {kTuning, device.tuning()},
          {"sums", order_of_sums(comm, options, plan, step)},
          {kStatistics, step.statistics()},
          {"steps", std::to_string(plan.steps)}};
}

std::string order_of_shards(const RunPlan& plan) {
  if (plan.canonical()) return "canonical";
  return fmt::format("that of {} with {} each", counted(plan.ranks(), "rank"),
                     counted(plan.own_shards, "shard"));
}

std::vector<std::string> changes(const Circumstances& checkpoint, const Circumstances& now,
                                 const Options& options) {
  const Circumstances before = with_statistics(checkpoint, now);
  const RateOptions& schedule = options.schedule.rate;
  std::vector<std::string> notes;
  const auto compare = [&](const char* name, const auto& note) {
    const auto former = before.find(name);
    const auto present = now.find(name);
    if (former == before.end() || present == now.end() || former->second == present->second) return;
    notes.push_back(note(present->second, former->second));
  };
  for (const auto& [name, is, was] : changed_options(before, options)) {
    notes.push_back(fmt::format("--{} is now {}, not {} as before: this is no longer the same run",
                                name, is, was.empty() ? "none" : was));
  }
  if (looks_at_the_end(schedule)) {
    compare("steps", [&](const auto& is, const auto& was) {
      return fmt::format(
          "the run now ends at step {}, not {} as before, and --lr-schedule {} depends on it: this "
          "is no longer the same run",
          is, was, schedule.schedule);
    });
  }
  compare(kStatistics, [](const auto& is, const auto& was) {
    return fmt::format(
        "batch norm has mean and variance of {} now, not of {} as before: this is no longer the "
        "same run",
        is, was);
  });
  const bool early = !before.contains("all_threads");  // then they are only known of rank 0
  compare(early ? "threads" : "all_threads", [](const auto& is, const auto& was) {
    const bool one = was.find(',') == std::string::npos;
    return fmt::format(
        "now {} threads on each rank, not {} as before: weights will differ in the last bits{}", is,
        was, one ? fmt::format(" (--threads {} keeps them)", was) : "");
  });
  const auto last_bits = [&](const char* name, const char* what) {
    compare(name, [what](const auto& is, const auto& was) {
      return fmt::format("{} is now {}, not {} as before: weights will differ in the last bits",
                         what, is, was);
    });
  };
  last_bits("sums", "the order of sums");
  last_bits("arithmetic", "the arithmetic");
  compare("version", [](const auto& is, const auto& was) {
    return fmt::format("this is Lockstep {}, not {} as before: weights may differ in the last bits",
                       is, was);
  });
  return notes;
}

void require_same_run(const Resumption& complete, const Circumstances& now,
                      const Options& options) {
  const Circumstances before = with_statistics(complete.metadata.texts, now);
  std::vector<std::string> others;
  for (const ChangedOption& option : changed_options(before, options))
    others.push_back("--" + option.name);
  const auto compare = [&](const char* text, const char* name) {
    const auto former = before.find(text), present = now.find(text);
    if (former != before.end() && present != now.end() && former->second != present->second)
      others.push_back(name);
  };
  compare("global_batch", "--global-batch (which is --batch times the ranks)");
  compare(kStatistics, "--sync-bn");
  if (looks_at_the_end(options.schedule.rate)) compare("steps", "--steps");
  if (others.empty()) return;
  fail_usage(
      "{} is complete, with other values of {}. Pass the options of that run, or choose another "
      "--checkpoint-dir.",
      complete.file->string(), fmt::join(others, ", "));
}

}  // namespace lockstep
