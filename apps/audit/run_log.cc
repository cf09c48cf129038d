#include "apps/audit/run_log.h"

#include <algorithm>
#include <array>
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

/// The numbers of a line that do not depend on time, machine and ranks.
constexpr std::array kResults = {"epoch",         "loss", "penalty", "batch_top1",
                                 "learning_rate", "top1", "top5",    "samples"};

std::int64_t step_of(const json& object) {
  const auto step = object.find("step");
  return step != object.end() && step->is_number_integer() ? step->get<std::int64_t>() : -1;
}

void add_line(const json& line, const std::string& place, RunLog& log) {
  const auto kind = line.find("kind");
  const std::int64_t step = step_of(line);
  if (step < 0 || kind == line.end() || !kind->is_string()) return;
  if (const auto hash = line.find(kWeightsField); hash != line.end())
    log.values.push_back({step, LoggedValue::kWeights, *hash, place});
  if (*kind != "train" && *kind != "evaluation") return;
  for (const char* name : kResults) {
    if (const auto value = line.find(name); value != line.end())
      log.values.push_back({step, kind->get<std::string>() + " " + name, *value, place});
  }
}

/// The results in summary.json are those of lines of kind "evaluation".
void add_summary(const json& summary, RunLog& log) {
  if (const auto hash = summary.find(kWeightsField); hash != summary.end() && hash->is_string())
    log.values.push_back({step_of(summary), LoggedValue::kWeights, *hash, kSummaryFile});
  for (const char* part : {"result", "best"}) {
    const json object = summary.value(part, json());
    if (!object.is_object()) continue;
    for (const char* name : {"top1", "loss"}) {
      if (object.contains(name))
        log.values.push_back(
            {step_of(object), std::string("evaluation ") + name, object[name], kSummaryFile});
    }
  }
}

}  // namespace

std::string LoggedValue::shown() const {
  constexpr std::size_t kDigits = 12, kMost = 64;
  if (is_hash() && value.is_string() && value.get<std::string>().size() > kDigits)
    return one_line(value.get<std::string>().substr(0, kDigits)) + "...";
  return one_line(value.dump(-1, ' ', true, json::error_handler_t::replace)).substr(0, kMost);
}

std::vector<std::int64_t> RunLog::hashed_steps() const {
  std::vector<std::int64_t> steps;
  for (const LoggedValue& value : values)
    if (value.is_hash() && (steps.empty() || steps.back() != value.step))
      steps.push_back(value.step);
  return steps;
}

RunLog read_log(const std::filesystem::path& folder) {
  RunLog log;
  int number = 0;
  bool begun = false;
  std::string lines = read_file(folder / "metrics.jsonl").value_or("");
  lines.resize(lines.rfind('\n') + 1);  // npos + 1 is 0
  for (const std::string& text : lines_of(lines)) {
    const json line = object_in(text);
    ++number;
    if (!line.is_object()) {
      log.damage.push_back(fmt::format("metrics.jsonl:{} is no JSON object", number));
      continue;
    }
    if (line.value("kind", json()) == "run" && !std::exchange(begun, true))
      log.began = std::max<std::int64_t>(0, step_of(line));
    add_line(line, fmt::format("metrics.jsonl:{}", number), log);
  }
  const json summary = object_in(read_file(folder / kSummaryFile).value_or(""));
  if (summary.is_object()) add_summary(summary, log);
  std::ranges::stable_sort(log.values, {}, &LoggedValue::step);
  return log;
}

Comparison compare_logs(const RunLog& run, const RunLog& replay, const Stretch& stretch) {
  std::map<std::pair<std::int64_t, std::string>, const LoggedValue*> replayed;
  for (const LoggedValue& value : replay.values) replayed[{value.step, value.name}] = &value;
  Comparison result;
  std::int64_t hashed = -1;  // the last step that is counted
  for (const LoggedValue& logged : run.values) {
    if (!stretch.contains(logged.step)) continue;
    const auto found = replayed.find({logged.step, logged.name});
    const bool missing = found == replayed.end();
    if (missing && !logged.is_hash()) continue;
    if (missing || found->second->value != logged.value) {
      result.step = logged.step;
      result.difference =
          fmt::format("{} has {} {}, the replay {}", logged.place, logged.name, logged.shown(),
                      missing ? "does not reach this step" : found->second->shown());
      return result;
    }
    result.results += !logged.is_hash();
    result.hashes += logged.is_hash() && std::exchange(hashed, logged.step) != logged.step;
  }
  return result;
}

}  // namespace lockstep
