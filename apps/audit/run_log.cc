#include "apps/audit/run_log.h"

#include <algorithm>
#include <map>
#include <utility>

#include "apps/evaluate/measures.h"
#include "apps/record/run_files.h"
#include "src/base/check.h"
#include "src/base/text.h"
#include "src/files/file.h"
#include "src/report/stored_run.h"

namespace lockstep {
namespace {

using nlohmann::json;

/// The step of `object`; -1: it has none.
std::int64_t step_in(const json& object) {
  const json step = object.value("step", json());
  return step.is_number_integer() ? step.get<std::int64_t>() : -1;
}

/// Whether the log lacks a line of kind "train" between two neighbours of these steps. A run logs
/// the first step of each start, each step that --log-every divides, and its last step.
bool skips(const RunLog& log, std::int64_t before, std::int64_t step) {
  if (log.starts.empty()) return false;
  const auto& [begin, facts, place] = log.starts.back();
  const json every = facts.option("log-every");
  if (before <= begin) return step > begin + 1;
  const std::int64_t length =
      every.is_number_unsigned() ? std::max(every.get<std::int64_t>(), std::int64_t{1}) : INT64_MAX;
  return (step - 1) / length > before / length;
}

void add_line(const std::string& text, const std::string& place, RunLog& log) {
  const json line = log.checked(text, place);
  const std::int64_t step = line.is_object() ? step_in(line) : -1;
  const std::string kind = step < 0 ? "" : text_in(line, "/kind");
  const bool starts = kind == "run";
  const auto facts = RunFacts::read(text);
  if (kind.empty() || !facts) {
    log.damage.push_back(place + " is no JSON object with a kind and a step");
    return;
  }
  std::int64_t& before = log.last.try_emplace(kind, -1).first->second;
  // Lines of other kinds, as those of starts, can follow one of the same step.
  if (find_field(kind, "epoch") &&
      (step <= before || (kind == "train" && skips(log, before, step))))
    log.damage.push_back(fmt::format("{} cannot have step {} after step {}. Restore the file.",
                                     place, step, before));
  before = step;
  if (starts) log.starts.push_back({step, *facts, place});
  for (const auto& [name, value] : line.items()) {
    if (name != "kind" && name != "step") log.add(step, starts ? "fact" : kind, name, value, place);
  }
}

/// Results of summary.json are those of lines of the log.
void add_results(const json& summary, RunLog& log) {
  const auto add = [&](std::int64_t step, const char* part, const char* from, const char* group,
                       const std::string& to) {
    const json object = summary.value(part, json::object());
    if (object.is_object() && object.contains(from))
      log.add(step < 0 ? step_in(object) : step, group, to, object[from], kSummaryFile);
  };
  add(-1, "result", "loss", "evaluation", "loss");
  add(-1, "best", "top1", "evaluation", "top1");
  const std::string by = text_in(summary, "/best/by");
  const auto measure = std::ranges::find(measures(), by, &Measure::name);
  if (measure != measures().end()) {
    add(-1, "best", "value", "evaluation", std::string(measure->field));
  } else if (!by.empty()) {
    log.damage.push_back("summary.json has a best evaluation by an unknown measure");
  }
  add(step_in(summary), "test", "top1", "test", "top1");
  std::int64_t last = -1;  // the log of a run that was killed may go beyond its summary
  for (const LoggedValue& value : log.values)
    if (value.name == "evaluation epoch" && value.step <= step_in(summary))
      last = std::max(last, value.step);
  add(last, "result", "top1", "evaluation", "top1");
}

void add_summary(const json& summary, RunLog& log) {
  const std::string status = text_in(summary, "/status");
  const bool stopped = status == "running" || status == "stopped" || status == "failed";
  // Only a run that was killed has a summary of an earlier step.
  const bool ended = status != "running" && status != "failed";
  const auto is_later = [&](const LoggedValue& value) { return value.step > step_in(summary); };
  if (const auto later = std::ranges::find_if(log.values, is_later);
      ended && later != log.values.end())
    log.damage.push_back(fmt::format("{} is {} at step {}, and {} is later", kSummaryFile,
                                     one_line(status), step_in(summary), later->place));
  for (const auto& [name, value] : summary.items()) {
    std::string group = find_field("summary", name) != nullptr ? "summary" : "fact";
    if (name == "epoch") group = "train";
    if (name == kWeightsField) group = "*";
    // A replay ends where the stretch ends. It cannot repeat a signal or a failure that ended the
    // run.
    const bool why = stopped && (name == "status" || name == "reason");
    if (!value.is_null() && (name != "epoch" || value != 0))
      log.add(step_in(summary), group, why ? "interruption" : name, value, kSummaryFile);
    if (name != "result" && name != "times") continue;
    for (const auto& [part, is] : value.items())
      log.add(step_in(summary), name, part, is, kSummaryFile);
  }
  add_results(summary, log);
}

/// The step after which the set was evaluated: for the test set, another one than that of the
/// weights.
void add_classes(json classes, RunLog& log) {
  const std::string about = text_in(classes, "/about");
  std::int64_t step = step_in(classes);
  bool tested = about != "best weights" && about != "last weights";
  for (const LoggedValue& value : log.values) {
    if (text_in(classes, "/set") != "test set" || value.name != "test top1") continue;
    step = value.step;
    tested = true;
  }
  // A run that went on after its end has taken the line of its test back.
  if (!tested && !log.starts.empty() && log.starts.back().step >= step)
    return static_cast<void>(log.skipped.insert("former tests"));
  for (json& mistake : classes["mistakes"]) {
    if (!mistake.is_object()) continue;
    // The folder of the data may have moved, and a table ("texts.csv:50") may have a new name.
    std::string file = std::filesystem::path(text_in(mistake, "/file")).filename().string();
    const std::size_t line = file.find_last_not_of("0123456789");
    if (line + 1 < file.size() && file[line] == ':') file.erase(0, line);
    mistake["file"] = file;
  }
  for (const auto& [name, value] : classes.items())
    log.add(step, "classes", name, value, "evaluation.json");
}

}  // namespace

std::string LoggedValue::shown() const {
  constexpr std::size_t kMost = 64;
  return one_line(value.dump(-1, ' ', true, json::error_handler_t::replace)).substr(0, kMost);
}

void RunLog::add(std::int64_t step, const std::string& group, const std::string& name,
                 const json& value, const std::string& place) {
  const Fields* const field = find_field(group, name);
  if (!field) {
    damage.push_back(fmt::format("{} has the unknown field {} {}. Use the version of the run.",
                                 place, one_line(group), one_line(name)));
  } else if (field->check == Check::none) {
    skipped.emplace(field->topic);
  } else {
    values.push_back({step, fmt::format("{} {}", field->group == "*" ? "*" : group, name), value,
                      place, field->check});
  }
}

json RunLog::checked(const std::string& text, const std::string& place) {
  // The parser keeps the last of two equal names in silence. So its events are watched: the keys of
  // an object have the depth below its begin.
  std::map<int, std::set<std::string>> names;  // by depth
  bool twice = false;
  const auto note = [&](int depth, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) names.erase(depth + 1);
    if (event == json::parse_event_t::key) twice |= !names[depth].insert(value).second;
    return true;
  };
  json object = json::parse(text, note, /*allow_exceptions=*/false);
  if (object.is_object() && twice) damage.push_back(place + " has a name twice. Restore the file.");
  return object;
}

void RunLog::sort() { std::ranges::stable_sort(values, {}, &LoggedValue::step); }

const LoggedValue* RunLog::find(std::int64_t step, const std::string& name) const {
  for (const LoggedValue& value : values)
    if (value.step == step && value.name == name) return &value;
  return nullptr;
}

RunLog read_log(const std::filesystem::path& folder) {
  RunLog log;
  int number = 0;
  std::string lines = read_file(folder / "metrics.jsonl").value_or("");
  // A run that was killed may leave half a line; a whole one counts, as for all that read the log.
  const std::size_t end = lines.rfind('\n') + 1;  // npos + 1 is 0
  if (!object_in(lines.substr(end)).is_object()) lines.resize(end);
  for (const std::string& text : lines_of(lines))
    add_line(text, fmt::format("metrics.jsonl:{}", ++number), log);
  if (!log.starts.empty()) log.began = log.starts.front().step;
  const auto object_of = [&](const char* name) {
    return log.checked(read_file(folder / name).value_or(""), name);
  };
  const json summary = object_of(kSummaryFile), classes = object_of("evaluation.json");
  if (classes.is_object()) add_classes(classes, log);
  if (summary.is_object()) add_summary(summary, log);
  log.sort();
  return log;
}

std::string compare_logs(const RunLog& run, const RunLog& replay, const Stretch& stretch,
                         std::int64_t& equal) {
  std::map<LoggedKey, const LoggedValue*> replayed;
  for (const LoggedValue& value : replay.values) replayed[{value.step, value.name}] = &value;
  for (const LoggedValue& logged : run.values) {
    if (!stretch.contains(logged.step) || logged.check != Check::replay) continue;
    const auto found = replayed.find({logged.step, logged.name});
    const bool missing = found == replayed.end();
    // A run that was killed has a summary of an earlier step.
    const bool status = logged.name.starts_with("summary ") || logged.name.starts_with("fact ");
    if (missing && status && logged.step < stretch.end) continue;
    if (missing || found->second->value != logged.value) {
      return fmt::format("step {}: {} has {} {}, the replay {}", logged.step, logged.place,
                         logged.name, logged.shown(), missing ? "none" : found->second->shown());
    }
    ++equal;
  }
  // The replay logs more steps than the run. Only an evaluation that the run lacks shows that a
  // line was removed.
  for (const auto& [key, value] : replayed) {
    const auto& [step, name] = key;
    if (name == "evaluation top1" && stretch.contains(step) && !run.find(step, name))
      return fmt::format("step {}: the replay has {} {}, the log none", step, name, value->shown());
  }
  return "";
}

std::vector<std::string> compare_means(const RunLog& run, const std::vector<LoggedValue>& replayed,
                                       int& left) {
  std::map<LoggedKey, double> steps;
  for (const LoggedValue& value : replayed)
    if (value.value.is_number()) steps[{value.step, value.name}] = value.value;
  std::vector<std::string> differences;
  for (const LoggedValue& mean : run.values) {
    if (mean.check != Check::mean) continue;
    // A start counts the steps of its epoch since it began.
    std::int64_t begin = run.began;
    for (const LoggedFacts& start : run.starts)
      if (start.step < mean.step) begin = std::max(begin, start.step);
    for (const LoggedValue& other : run.values)
      if (other.name == mean.name && other.step < mean.step) begin = std::max(begin, other.step);
    const char* const name = mean.name == "epoch acc" ? "train batch_top1" : "train loss";
    // In the order of the steps, as the run has added them: only then is the mean equal bit for
    // bit.
    double sum = 0;
    std::int64_t step = begin + 1;
    for (; step <= mean.step && steps.contains({step, name}); ++step) sum += steps[{step, name}];
    if (step <= mean.step) {
      ++left;
    } else if (const double is = sum / static_cast<double>(mean.step - begin); is != mean.value) {
      differences.push_back(
          fmt::format("{} has {} {}, the replay {}", mean.place, mean.name, mean.shown(), is));
    }
  }
  return differences;
}

}  // namespace lockstep
