// Audits a run: trains stretches between its checkpoints again, in copies, and compares the hashes
// of the weights and the results with those that the run logged.

#include <algorithm>
#include <iterator>
#include <set>

#include "apps/audit/checkpoints.h"
#include "apps/audit/replay.h"
#include "apps/options/command_line.h"
#include "apps/options/help.h"
#include "apps/record/data_facts.h"
#include "apps/record/fact_words.h"
#include "apps/record/run_files.h"
#include "net/checkpoint.h"
#include "src/base/check.h"
#include "src/base/plural.h"
#include "src/base/random.h"
#include "src/base/signals.h"
#include "src/base/text.h"
#include "src/data/data_options.h"
#include "src/files/file.h"
#include "src/report/report.h"
#include "src/report/stored_run.h"

// The audit has three stages. First the files of the run must agree with each other. Then replays
// must reach the values that the files claim. At the end the verdict names what could not be
// compared, so that nothing counts as proved in silence.
namespace lockstep {
namespace {

namespace fs = std::filesystem;

struct VerifyOptions {
  std::string run;
  int stretches = 3;
  bool all = false;
  std::uint64_t seed = 0;
  ReplayOptions replay;
};

void declare(OptionRows& rows, VerifyOptions& o) {
  rows.group("Options");
  rows.text("RUN", o.run, "",
            "Name of a run in runs/, or its folder\nA checkpoint stands for its run, which "
            "is never changed.")
      .example("first");
  rows.number("--stretches", o.stretches, Bounds::at_least(1, 1 << 20),
              "Number of stretches between checkpoints that are trained again")
      .excludes("--all", "stretches")
      .example("10");
  rows.flag("--all", o.all, "Train all stretches again");
  rows.optional_number("--seed", o.seed, Bounds::at_least(1, 0x1p32),
                       "Random seed of the choice of stretches [a new one each time]")
      .idle_with("--all")
      .example("7");
  rows.optional_number("--np", o.replay.ranks, Bounds::at_least(1, 1 << 16),
                       "Number of ranks, also -np [those of the run, at most one per core]\n"
                       "No bit depends on it if the run's order of sums is canonical.")
      .example("2");
  declare_folders(rows, o.replay.data, "Folder of the data set, if it has moved").example("photos");
  rows.text("--program", o.replay.program, "FILE",
            "Training program [that of the run, beside verify_run]")
      .example("build/train_cifar");
  rows.text("--scratch", o.replay.scratch, "DIR", "Folder for the copies [that of temporary files]")
      .example("/tmp");
  rows.flag("--trusted", o.replay.trusted,
            "Use of options of the run that may name any file\n"
            "These are --init, --resume, --class-weights and options of your own program. Without "
            "it, a replay reads only the data and the folder of the run.");
}

void line(const char* name, const std::string& text) {
  Console().line(fmt::format("{:<12} {}", name, text));
}

/// A run as its files describe it.
struct Audited {
  StoredRun files;
  RunFacts facts;
  RunLog log;  ///< with the checkpoints
  Checkpoints checkpoints;

  /// Empty: there is no checkpoint of this step.
  fs::path file(std::int64_t step) const {
    return checkpoints.contains(step) ? checkpoints.at(step) : fs::path();
  }
};

Audited read_audited(const std::string& name) {
  Audited run;
  run.files = find_runs({name}).front();
  const fs::path& folder = run.files.folder;
  const auto facts = stored_facts(folder);
  require(facts.has_value(), "{} has no whole {}. Restore it.", folder.string(), kSummaryFile);
  run.facts = *facts;
  run.log = read_log(folder);
  run.checkpoints = add_checkpoints(folder / "checkpoints", run.log);
  const std::string network = run.facts.text("network");
  const std::set<std::string> compared{"metrics.jsonl", kSummaryFile, kConfigFile, "checkpoints",
                                       run.files.evaluation.is_null() ? "" : "evaluation.json"};
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name == kNetworkFile && !network.empty()) {
      if (read_file(entry.path()) != network)
        run.log.damage.push_back(name + " is not the network in summary.json");
    } else if (!compared.contains(name)) {
      run.log.skipped.insert(one_line(name.substr(0, name.find(".tfevents."))));
    }
  }
  return run;
}

/// `count` of them by the seed, in their order.
std::vector<Stretch> chosen_of(std::vector<Stretch> stretches, int count, std::uint64_t seed) {
  std::vector<Stretch> chosen;
  Random random(seed, Purpose::shuffle, 0, 0);
  while (!stretches.empty() && std::ssize(chosen) < count) {
    const auto at = stretches.begin() + random.below(static_cast<std::uint32_t>(stretches.size()));
    chosen.push_back(*at);
    stretches.erase(at);
  }
  std::ranges::sort(chosen, {}, &Stretch::begin);
  return chosen;
}

/// The facts that decide bits and are not as they were: one note each. The checkpoint at the end of
/// the stretch has the facts of the start that wrote it.
void print_notes(const Audited& run, const Stretch& stretch, const RunFacts& now) {
  RunFacts before = run.facts;
  for (const LoggedFacts& file : run.log.facts)
    if (file.step == stretch.end) before = file.facts;
  std::vector<const char*> names = {"arithmetic", "libraries", "version"};
  if (!before.portable() || !now.portable()) names.push_back("compiler");
  for (const char* name : names) {
    const RunFacts::Json is = now.value(name), was = before.value(name);
    if (is == was || is.is_null() || was.is_null()) continue;
    line("note", fmt::format("{} is {} here, and was {}: weights may differ", name, words_of(is),
                             words_of(was)));
  }
}

std::string stretches_text(std::int64_t count) {
  return fmt::format("{} {}", count, count == 1 ? "stretch" : "stretches");
}

/// The result of all replays.
struct Verdict {
  std::int64_t equal = 0, different = 0, failed = 0;  ///< stretches
  std::int64_t faults = 0;                            ///< contradictions and damage of its files

  int exit_code() const {
    if (different + faults > 0) return kExitFailure;
    return failed > 0 ? kExitData : kExitSuccess;
  }
  void print() const {
    if (different > 0)
      line("DIFFERENT", stretches_text(different) + " did not reach the logged bits");
    if (faults > 0) line("DIFFERENT", counted(faults, "fault") + " in the files of the run");
    if (failed > 0) line("INCOMPLETE", stretches_text(failed) + " could not be replayed");
    if (exit_code() == kExitSuccess)
      line("EQUAL", stretches_text(equal) + " reached the bits that the run logged");
  }
};

/// The replay of the stretch. Removes from `log` a former test, which it leaves out: its weights
/// may be gone.
ReplaySpec spec_of(const Audited& run, const Stretch& stretch, RunLog& log) {
  ReplaySpec spec{.stretch = stretch, .checkpoint = run.file(stretch.begin)};
  for (const LoggedValue& value : log.values)
    if (value.name == LoggedValue::kWeights && value.step > log.began)
      spec.steps.insert(value.step);
  const LoggedValue* const best = log.find(stretch.begin, "progress best");
  if (best && !best->value.empty()) spec.best = run.file(best->value.at(0).at("step"));
  const auto has = [&](const char* name) { return log.find(stretch.end, name) != nullptr; };
  const LoggedValue *const due = log.find(stretch.end, "progress evaluation_due"),
                           *const tested = log.find(stretch.end, "progress tested");
  const bool is_due = due && due->value == true;
  // A replay must not do more than the run: a further evaluation would change the progress that is
  // compared. So what the run left out is left out again.
  const bool killed = run.file(stretch.end).empty() && !has("evaluation top1");
  const auto leave_out = [&](std::string_view topic, std::string_view names) {
    log.skipped.emplace(topic);
    std::erase_if(log.values, [&](const LoggedValue& value) {
      return value.step == stretch.end && value.name.starts_with(names);
    });
  };
  if (killed || (is_due && !has("evaluation top1"))) {
    spec.leaves = "evaluation";
  } else if (is_due) {
    // Killed after the evaluation, before the checkpoint that contains it.
    leave_out("a checkpoint before its evaluation", "progress ");
  } else if (!has("test top1")) {
    spec.leaves = "test";
    if (tested && tested->value.at("step") >= 0) leave_out("former tests", "progress tested");
  }
  return spec;
}

/// A reason for other bits, if the replay of the first steps began with other data or weights than
/// the run; empty: there is none. Later stretches begin with a checkpoint, which refuses other data.
std::string other_start(const Audited& run, const Replayed& replayed) {
  if (run.facts.value("files") != replayed.facts.value("files"))
    return "these are not the data of the run. Pass them as --data";
  const LoggedValue *const was = run.log.find(run.log.began, LoggedValue::kWeights),
                           *const is = replayed.log.find(run.log.began, LoggedValue::kWeights);
  return was && is && was->value != is->value ? "--init has other weights now" : "";
}

/// Trains the stretch again and prints its line. `log`: of the run. `steps` gains values of the
/// replay.
void verify(const Audited& run, const Stretch& stretch, Replay& replay, RunLog& log,
            std::vector<LoggedValue>& steps, Verdict& verdict) {
  const Replayed replayed = replay.run(spec_of(run, stretch, log));
  const bool first = verdict.equal + verdict.different == 0;
  if (first && replayed.code == kExitSuccess) print_notes(run, stretch, replayed.facts);
  const std::string name = fmt::format("steps {} to {}", stretch.begin, stretch.end);
  const auto not_replayed = [&](const std::string& reason) {
    ++verdict.failed;
    Console().line(fmt::format("{}: not replayed: {}", name, reason));
  };
  if (replayed.code != kExitSuccess) return not_replayed(replayed.error);
  std::int64_t equal = 0;
  std::string difference = compare_logs(log, replayed.log, stretch, equal);
  if (!difference.empty() && stretch.first) {
    const std::string other = other_start(run, replayed);
    if (!other.empty()) return not_replayed(other);
  }
  steps.insert(steps.end(), replayed.log.values.begin(), replayed.log.values.end());
  // The last start wrote that file.
  if (difference.empty() && stretch.end > log.starts.back().step && !replayed.samples.empty() &&
      run.facts.value("version") == replayed.facts.value("version") &&
      log.skipped.erase(kFingerprints) > 0 &&
      read_file(run.files.folder / kFingerprints) != replayed.samples)
    difference = fmt::format("{}: it has other samples than the replay", kFingerprints);
  ++(difference.empty() ? verdict.equal : verdict.different);
  Console().line(difference.empty() ? fmt::format("{}: equal in {}", name, counted(equal, "value"))
                                    : fmt::format("{}: different at {}", name, difference));
}

/// Prints what the audit is about.
void print_run(const Audited& run) {
  const RunFacts& facts = run.facts;
  line("run", fmt::format("{}: {}, {}, seed {}, {}", run.files.folder.string(),
                          facts.text("program"), facts.text("model"), facts.number("seed"),
                          counted(facts.number("ranks"), "rank")));
  line("arithmetic", words_of(facts.value("arithmetic")));
  line("checkpoints", fmt::format("{} in the folder, with --keep {}", run.checkpoints.size(),
                                  words_of(facts.option("keep"))));
  const std::string parent = facts.text("parent");
  if (run.log.began > 0 && !parent.empty()) {
    line("note", fmt::format("the steps up to {} are those of run {}. Audit its folder too.",
                             run.log.began, parent.substr(0, parent.find(' '))));
  }
}

/// Trains the stretches that `o` chooses again. Returns the faults that only replays show.
std::vector<std::string> replay_all(Audited& run, const VerifyOptions& o, const Signals& signals,
                                    Verdict& verdict) {
  RunLog& log = run.log;
  if (log.starts.empty()) log.starts.push_back({0, run.facts, kSummaryFile});
  const std::vector<Stretch> all = stretches_of(log, run.checkpoints);
  require(!all.empty(), "{} has no hash of weights to compare. Name a run of this version.",
          run.files.folder.string());
  const std::uint64_t seed =
      o.seed > 0 ? o.seed : 1 + std::stoull(unique_hex(4), nullptr, 16) % 1'000'000;
  const std::vector<Stretch> chosen = o.all ? all : chosen_of(all, o.stretches, seed);
  Replay replay(log, run.facts, o.replay, signals);
  std::int64_t steps = 0;
  for (const Stretch& stretch : chosen) steps += stretch.end - stretch.begin;
  line("replay", fmt::format("{} of {} on {}: {}{}", chosen.size(), stretches_text(std::ssize(all)),
                             counted(replay.ranks(), "rank"), counted(steps, "step"),
                             chosen.size() == all.size() ? "" : fmt::format(", --seed {}", seed)));
  std::vector<LoggedValue> replayed;
  for (const Stretch& stretch : chosen) verify(run, stretch, replay, log, replayed, verdict);
  int left = 0;
  const std::vector<std::string> found = compare_means(log, replayed, left);
  if (left > 0) log.skipped.insert(counted(left, "mean") + " of epochs");
  return found;
}

int run(const VerifyOptions& o, const Signals& signals) {
  Audited run = read_audited(o.run);
  print_run(run);
  std::vector<std::string> found = contradictions(run.log, run.files);
  found.insert(found.end(), run.log.damage.begin(), run.log.damage.end());
  Verdict verdict;
  // Files of several folders are named with their folders, which may have other names now.
  if (o.replay.data.size() > 1 &&
      std::erase_if(run.log.values, [](const auto& value) { return value.name == "fact files"; }))
    run.log.skipped.insert("names of folders");
  // Files that contradict each other make no claim that a replay could confirm.
  if (found.empty()) found = replay_all(run, o, signals, verdict);
  for (const std::string& text : found) Console().line(text);
  verdict.faults = std::ssize(found);
  run.log.skipped.erase("");
  line("not compared", joined(run.log.skipped, ", "));
  verdict.print();
  return verdict.exit_code();
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  const Signals signals;
  return run_without_ranks(argc, argv,
                           {"verify_run", "Trains stretches of a run again and compares their bits",
                            "verify_run [OPTIONS] RUN"},
                           declare, [&](const VerifyOptions& o) {
                             int code = kExitSuccess;
                             with_exit_code(kExitData, [&] { code = run(o, signals); });
                             return code;  // 1 is a verdict
                           });
}
