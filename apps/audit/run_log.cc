#include "apps/audit/run_log.h"

#include <algorithm>
#include <map>
#include <utility>

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

std::string text_in(const json& object, const char* name) {
  const json text = object.value(name, json());
  return text.is_string() ? text.get<std::string>() : "";
}

/// `last`: the step of the last line of each kind.
void add_line(const std::string& text, const std::string& place, RunLog& log,
              std::map<std::string, std::int64_t>& last) {
  const json line = object_in(text);
  const std::int64_t step = line.is_object() ? step_in(line) : -1;
  const std::string kind = step < 0 ? "" : text_in(line, "kind");
  const bool starts = kind == "run";
  const auto facts = RunFacts::read(text);
  if (kind.empty() || !facts) {
    log.damage.push_back(place + " is no JSON object with a kind and a step");
    return;
  }
  log.check_names(text, place);
  // A start, a checkpoint or a change can follow another one of its step.
  constexpr std::string_view kOnce = "train evaluation epoch test host";
  const auto before = last.find(kind);
  if (before != last.end() && step < before->second + (kOnce.find(kind) != kOnce.npos))
    log.damage.push_back(fmt::format("{} follows step {}, but is of step {}. Restore the file.",
                                     place, before->second, step));
  last[kind] = step;
  if ((kind == "evaluation" || kind == "test") && !line.contains("top1"))
    log.damage.push_back(place + " has no result. Restore the file.");
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
  add(step_in(summary), "test", "top1", "test", "top1");
  std::int64_t last = -1;  // the log of a run that was killed may go beyond its summary
  for (const LoggedValue& value : log.values)
    if (value.name == "evaluation epoch" && value.step <= step_in(summary))
      last = std::max(last, value.step);
  add(last, "result", "top1", "evaluation", "top1");
}

void add_summary(const json& summary, RunLog& log) {
  const std::string status = text_in(summary, "status");
  const bool ended = status == "stopped" || status == "failed",
             stopped = ended || status == "running";
  for (const auto& [name, value] : summary.items()) {
    const bool result = find_field("summary", name) != nullptr;
    const std::string group = name == kWeightsField ? "*"
                              : name == "epoch"     ? "train"
                              : result              ? "summary"
                                                    : "fact";
    const bool why = (stopped && name == "status") || (ended && name == "reason");
    if (name == "reason" && status == "running")
      log.damage.emplace_back("summary.json has a reason, but the status running. Restore it.");
    if (!value.is_null() && (name != "epoch" || value != 0))
      log.add(step_in(summary), group, why ? "interruption" : name, value, kSummaryFile);
  }
  for (const char* const group : {"result", "times"}) {
    const json object = summary.value(group, json());
    for (const auto& [name, value] : object.items())
      log.add(step_in(summary), group, name, value, kSummaryFile);
  }
  add_results(summary, log);
}

/// The step after which the set was evaluated: for the test set, another one than that of the
/// weights.
void add_classes(json classes, RunLog& log) {
  std::int64_t step = step_in(classes);
  for (const LoggedValue& value : log.values)
    if (text_in(classes, "set") == "test set" && value.name == "test top1") step = value.step;
  for (json& mistake : classes["mistakes"])
    if (mistake.is_object())  // the folder of the data may have moved
      mistake["file"] = std::filesystem::path(text_in(mistake, "file")).filename().string();
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

void RunLog::check_names(const std::string& text, const std::string& place) {
  std::vector<std::set<std::string>> names;
  std::string twin;
  const auto note = [&](int, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) names.emplace_back();
    if (event == json::parse_event_t::object_end) names.pop_back();
    if (event == json::parse_event_t::key && !names.back().insert(value).second)
      twin = one_line(value.get<std::string>());
    return true;
  };
  if (json::parse(text, note, /*allow_exceptions=*/false).is_object() && !twin.empty())
    damage.push_back(fmt::format("{} has {} twice. Restore the file.", place, twin));
}

bool RunLog::must_have(std::int64_t step, const std::string& name) const {
  if (name == "evaluation top1") return true;
  std::int64_t every = 0, first = -1;
  for (const LoggedFacts& start : starts) {
    // An epoch whose evaluation is all that the start did has no mean.
    if (start.step == step && name == "epoch val_loss") return false;
    if (start.step >= step) continue;
    const json option = start.facts.option("log-every");
    every = option.is_number_integer() ? option.get<std::int64_t>() : 0;
    first = start.step + 1;
  }
  const bool due = step == first || (every > 0 && step % every == 0);
  return name == "epoch val_loss" || (name == "train loss" && due);
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
  std::map<std::string, std::int64_t> last;
  std::string lines = read_file(folder / "metrics.jsonl").value_or("");
  // A run that was killed may leave half a line; a whole one counts, as for all that read the log.
  const std::size_t end = lines.rfind('\n') + 1;  // npos + 1 is 0
  if (!object_in(lines.substr(end)).is_object()) lines.resize(end);
  for (const std::string& text : lines_of(lines))
    add_line(text, fmt::format("metrics.jsonl:{}", ++number), log, last);
  if (!log.starts.empty()) log.began = log.starts.front().step;
  const auto object_of = [&](const char* name) -> json {
    const std::string text = read_file(folder / name).value_or("");
    log.check_names(text, name);
    return object_in(text);
  };
  const json summary = object_of(kSummaryFile), classes = object_of("evaluation.json");
  if (classes.is_object()) add_classes(classes, log);
  if (summary.is_object()) add_summary(summary, log);
  log.sort();
  return log;
}

std::string compare_logs(const RunLog& run, const RunLog& replay, const Stretch& stretch,
                         std::int64_t& equal) {
  std::map<std::pair<std::int64_t, std::string>, const LoggedValue*> replayed;
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
  for (const auto& [key, value] : replayed) {
    const auto& [step, name] = key;
    if (stretch.contains(step) && run.must_have(step, name) && !run.find(step, name))
      return fmt::format("step {}: the replay has {} {}, the log none", step, name, value->shown());
  }
  return "";
}

std::vector<std::string> compare_means(const RunLog& run, const std::vector<LoggedValue>& replayed,
                                       int& left) {
  std::map<std::pair<std::int64_t, std::string>, double> steps;
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
