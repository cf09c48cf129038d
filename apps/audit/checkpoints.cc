#include "apps/audit/checkpoints.h"

#include <algorithm>
#include <utility>

#include "apps/record/progress.h"
#include "apps/record/run_files.h"
#include "apps/record/weights_hash.h"
#include "net/checkpoint.h"
#include "src/base/sha256.h"
#include "src/base/text.h"
#include "src/files/hdf5.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// The name of the first fact of `one` that `other` lacks or has otherwise; empty: there is none.
std::string other_fact(const RunFacts& one, const RunFacts& other) {
  for (const auto& [name, value] : one.values().items())
    if (name != "kind" && name != "step" && name != "time" && other.value(name) != value)
      return name;
  return "";
}

/// The starts that may have written a file of `step`: the one that reached it, and those that
/// resumed there.
std::vector<const LoggedFacts*> writers_of(const RunLog& log, std::int64_t step) {
  std::vector<const LoggedFacts*> writers;
  for (const LoggedFacts& start : log.starts) {
    if (start.step < step) writers.clear();
    if (start.step <= step) writers.push_back(&start);
  }
  return writers;
}

void compare_facts(const RunLog& log, const RunFacts& summary, std::vector<std::string>& found) {
  if (log.starts.empty()) return;
  const auto compare = [&](const LoggedFacts& one, const LoggedFacts& other) {
    const std::string name = other_fact(one.facts, other.facts);
    if (!name.empty())
      found.push_back(fmt::format("{} has another fact {} than {}", other.place, name, one.place));
  };
  const LoggedFacts last{0, summary, kSummaryFile};
  compare(log.starts.back(), last);
  for (const LoggedFacts& file : log.facts) {
    const std::vector<const LoggedFacts*> writers = writers_of(log, file.step);
    const bool fits = std::ranges::any_of(writers, [&](const LoggedFacts* start) {
      return other_fact(start->facts, file.facts).empty();
    });
    if (!fits) compare(writers.empty() ? log.starts.front() : *writers.back(), file);
    if (writers == std::vector{&log.starts.back()}) compare(file, last);
  }
}

/// config.toml has the options of the last start, and its length as a comment.
void compare_options(const StoredRun& run, const RunFacts& facts, std::vector<std::string>& found) {
  const RunFacts::Json options = facts.value("options");
  std::set<std::string> missing;
  for (const auto& [name, value] : options.items()) missing.insert(name);
  for (const auto& [name, text] : run.options) {
    json is = json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (is.is_discarded()) is = text;
    std::string fact = name;
    std::ranges::replace(fact, '-', '_');
    json was = facts.option(name);
    if (name == "global-batch" || was.is_null()) was = facts.value(fact);
    missing.erase(name);
    if (is != was) {
      found.push_back(fmt::format("{} has {} = {}, and {} has {}", kConfigFile, one_line(name),
                                  one_line(text), kSummaryFile, one_line(was.dump())));
    }
  }
  for (const std::string& name : missing)
    found.push_back(fmt::format("{} lacks the option {}", kConfigFile, one_line(name)));
}

}  // namespace

void add_checkpoint(const fs::path& file, RunLog& log) {
  const Hdf5Reader reader(file);
  const std::int64_t step = reader.integer("step");
  const std::string place = file.filename().string();
  const RunFacts facts = RunFacts::of(file, read_metadata(file));
  RunLog found;
  std::vector<std::string> names;
  const auto add = [&](const char* group, const std::string& name, const json& value) {
    found.add(step, group, name, value, place);
    names.push_back(group + name);
  };
  for (const std::string& name : reader.arrays()) {
    const std::vector<float> values = reader.values(name);
    Sha256 hash;
    hash.add(reader.shape(name).text() + "\n");
    hash.add({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
    add("state", name, hash.digest());
  }
  for (const auto& [name, value] : reader.attributes())
    if (name != kFacts)
      add("state", name, std::visit([](const auto& is) { return json(is); }, value));
  for (const auto& [name, value] : facts.values().items()) add("fact", name, value);
  std::ranges::sort(names);
  add("state", "names", names);  // a part that is missing is a difference too
  found.add(step, "*", kWeightsField, weights_sha256(file), place);
  log.values.insert(log.values.end(), found.values.begin(), found.values.end());
  log.damage.insert(log.damage.end(), found.damage.begin(), found.damage.end());
  log.skipped.merge(found.skipped);
  log.facts.push_back({step, facts, place});
}

Checkpoints add_checkpoints(const fs::path& folder, RunLog& log) {
  std::vector<fs::path> files = list_checkpoints(folder);
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("best") && name.ends_with(".h5")) files.push_back(entry.path());
  }
  Checkpoints result;
  std::ranges::reverse(files);  // those of steps come last, the newest one at the end
  for (const fs::path& file : files) {
    const std::string name = file.filename().string();
    try {
      add_checkpoint(file, log);
      const std::int64_t step = log.facts.back().step;
      result[step] = file;
      if (name != checkpoint_name(step) && name != best_name(step) && name != kBestFile)
        log.damage.push_back(fmt::format("{} is of step {}", name, step));
    } catch (const UnreadableFile&) {
      throw;
    } catch (const Error& damaged) {
      log.damage.emplace_back(damaged.what());
    }
  }
  for (const LoggedFacts& file : log.facts) {
    const LoggedValue* const best = log.find(log.facts.back().step, "state best");
    if (file.place == kBestFile && best != nullptr &&
        !best->value.dump().ends_with(fmt::format(" step {}\"", file.step)))
      log.damage.push_back(fmt::format("{} is of step {}, and the best is {}", kBestFile, file.step,
                                       best->shown()));
  }
  log.sort();
  return result;
}

std::vector<std::string> contradictions(const RunLog& log, const StoredRun& run) {
  std::vector<std::string> result;
  std::map<std::pair<std::int64_t, std::string>, const LoggedValue*> known;
  for (const LoggedValue& value : log.values) {
    const LoggedValue* const first = known.try_emplace({value.step, value.name}, &value).first->second;
    if (first->value != value.value) {
      result.push_back(fmt::format("step {}: {} has {} {}, and {} has {}", value.step, first->place,
                                   value.name, first->shown(), value.place, value.shown()));
    }
  }
  const RunFacts facts(run.summary);
  compare_facts(log, facts, result);
  compare_options(run, facts, result);
  return result;
}

std::vector<Stretch> stretches_of(const RunLog& log, const Checkpoints& checkpoints) {
  std::vector<std::int64_t> states{log.began};
  for (const auto& [step, file] : checkpoints)
    if (step > states.back()) states.push_back(step);
  if (!log.values.empty() && log.values.back().step > states.back())
    states.push_back(log.values.back().step);
  std::vector<Stretch> stretches;
  for (std::size_t i = 1; i < states.size(); ++i)
    stretches.push_back({states[i - 1], states[i], i == 1});
  return stretches;
}

}  // namespace lockstep
