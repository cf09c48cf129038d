#include "apps/audit/checkpoints.h"

#include <algorithm>
#include <utility>

#include "apps/record/progress.h"
#include "apps/record/run_files.h"
#include "apps/record/weights_hash.h"
#include "net/checkpoint.h"
#include "src/base/check.h"
#include "src/base/text.h"
#include "src/files/file.h"
#include "src/files/hdf5.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// The name of the first fact of `one` that `other` lacks or has otherwise; empty: there is none.
std::string other_fact(const RunFacts& one, const RunFacts& other) {
  for (const auto& [name, value] : one.values().items())
    if (name != "kind" && name != "step" && name != "time" && name != kWeightsField &&
        other.value(name) != value)
      return name;
  return "";
}

void compare_facts(const RunLog& log, const RunFacts& summary, std::vector<std::string>& found) {
  if (log.starts.empty()) return;
  const auto compare = [&](const LoggedFacts& one, const LoggedFacts& other) {
    const std::string name = other_fact(one.facts, other.facts);
    if (!name.empty())
      found.push_back(fmt::format("{} has another fact {} than {}", other.place, name, one.place));
  };
  const LoggedFacts &last = log.starts.back(), stored{0, summary, kSummaryFile};
  // The last start wrote summary.json, so both have the same facts. A checkpoint may be of any
  // start before its step. One after the begin of the last start must be of that start.
  compare(last, stored);
  for (const LoggedFacts& file : log.facts) {
    if (file.step > last.step) compare(file, stored);
    const bool fits = std::ranges::any_of(log.starts, [&](const LoggedFacts& start) {
      return start.step <= file.step && other_fact(start.facts, file.facts).empty();
    });
    if (!fits) compare(last, file);
  }
}

/// config.toml has the options of the last start, and its length as a comment.
void compare_options(const StoredRun& run, const RunFacts& facts, std::vector<std::string>& found) {
  for (const std::string& line : lines_of(read_file(run.folder / kConfigFile).value_or("")))
    if (!line.empty() && !line.starts_with('#') && line.find('=') == line.npos)
      found.push_back(fmt::format("{} has the line {}", kConfigFile, one_line(line)));
  for (const auto& [name, text] : run.options) {
    json is = json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (is.is_discarded()) is = text;
    std::string fact = name;
    std::ranges::replace(fact, '-', '_');
    json was = facts.option(name);
    if (name == "global-batch" || was.is_null()) was = facts.value(fact);
    if (is != was) {
      found.push_back(fmt::format("{} has {} = {}, and {} has {}", kConfigFile, one_line(name),
                                  one_line(text), kSummaryFile, one_line(was.dump())));
    }
  }
  const json all = facts.value("options");
  for (const auto& [name, value] : all.items()) {
    const auto is = [&, &name = name](const auto& option) { return option.first == name; };
    if (std::ranges::none_of(run.options, is))
      found.push_back(fmt::format("{} lacks the option {}", kConfigFile, one_line(name)));
  }
}

}  // namespace

void add_checkpoint(const fs::path& file, RunLog& log) {
  const Hdf5Reader reader(file);
  const std::int64_t step = reader.integer("step");
  const std::string place = file.filename().string();
  const std::string foreign = reader.foreign_part();
  require(foreign.empty(), "{} has {}, which Lockstep does not write. Restore the file.", place,
          one_line(foreign));
  const CheckpointMetadata metadata = read_metadata(file);
  require_present_form(metadata);
  const RunFacts facts = RunFacts::of(file, metadata);
  log.checked(reader.text(kFacts), place);
  // Values are collected first. If the file turns out to be damaged, none of them counts.
  std::map<std::pair<std::string, std::string>, json> found;
  for (const std::string& name : reader.arrays()) {
    const std::string group = name.substr(0, name.find('/'));
    if (!found.contains({"state", group})) found[{"state", group}] = weights_sha256(file, group);
  }
  for (const auto& [name, value] : reader.attributes())
    if (name != kFacts && name != kProgress)
      found[{"state", name}] = std::visit([](const auto& is) { return json(is); }, value);
  if (const std::string text = metadata.text(kProgress); !text.empty()) {
    const json members = log.checked(text, place);
    try {
      RunProgress().read(members, step);
    } catch (const std::exception& error) {
      fail("{} is damaged: {}", place, one_line(error.what()));
    }
    for (const auto& [name, value] : members.items()) found[{"progress", name}] = value;
  }
  for (const auto& [name, value] : facts.values().items()) found[{"fact", name}] = value;
  json names;
  for (const auto& [name, value] : found) names.push_back(name.second);
  found[{"state", "names"}] = names;  // a part that is missing is a difference too
  require(found.contains({"state", "parameters"}), "{} is damaged: it has no parameters", place);
  found[{"*", kWeightsField}] = found.at({"state", "parameters"});
  for (const auto& [name, value] : found) log.add(step, name.first, name.second, value, place);
  log.facts.push_back({step, facts, place});
}

Checkpoints add_checkpoints(const fs::path& folder, RunLog& log) {
  std::vector<fs::path> files = list_checkpoints(folder);
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("best") && name.ends_with(".h5"))
      files.push_back(entry.path());
    else if (std::ranges::find(files, entry.path()) == files.end())
      log.skipped.insert("checkpoints/" + one_line(name));
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
    } catch (const FormerProgress& error) {
      fail("{} cannot be audited here: {}. Audit it with that version.", file.string(),
           error.what());
    } catch (const Error& damaged) {
      log.damage.emplace_back(damaged.what());
    }
  }
  for (const LoggedFacts& file : log.facts) {
    const LoggedValue* const best = log.find(log.facts.back().step, "progress best");
    if (file.place != kBestFile || !best || best->value.empty()) continue;
    if (const std::int64_t step = best->value.at(0).at("step"); step != file.step)
      log.damage.push_back(
          fmt::format("{} is of step {}, and the best is of step {}", kBestFile, file.step, step));
  }
  log.sort();
  return result;
}

std::vector<std::string> contradictions(const RunLog& log, const StoredRun& run) {
  std::vector<std::string> result;
  std::map<LoggedKey, const LoggedValue*> known;
  for (const LoggedValue& value : log.values) {
    // The first file that has a value of this step is compared with all later ones.
    const LoggedValue* const first =
        known.try_emplace({value.step, value.name}, &value).first->second;
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
    // Checkpoints before the begin of this run are of its parent.
    if (step > states.back()) states.push_back(step);
  if (!log.values.empty() && log.values.back().step > states.back())
    states.push_back(log.values.back().step);
  std::vector<Stretch> stretches;
  for (std::size_t i = 1; i < states.size(); ++i)
    stretches.push_back({states[i - 1], states[i], i == 1});
  return stretches;
}

}  // namespace lockstep
