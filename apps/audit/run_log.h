// RunLog: all that the files of a run claim, so that a replay of the run can be compared with it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "apps/audit/fields.h"
#include "apps/record/run_facts.h"

namespace lockstep {

/// A value that a file of the run has for the state after a step.
struct LoggedValue {
  std::int64_t step = 0;
  /// Group and name of the field (fields.h): "evaluation top1", "* weights_sha256".
  std::string name;
  nlohmann::json value;
  std::string place;  ///< "metrics.jsonl:12"
  Check check = Check::replay;

  /// The beginning of the value in JSON.
  std::string shown() const;
  static constexpr const char* kWeights = "* weights_sha256";
};

/// Facts that a file has. Of a line of kind "run": of the start after `step`, some of them.
struct LoggedFacts {
  std::int64_t step = 0;
  RunFacts facts;
  std::string place;
};

using LoggedKey = std::pair<std::int64_t, std::string>;  ///< a step and the name of a value

struct RunLog {
  std::vector<LoggedValue> values;  ///< sorted by step once all files are read
  std::vector<LoggedFacts> starts;  ///< lines of kind "run"
  std::vector<LoggedFacts> facts;   ///< of the checkpoints
  std::int64_t began = 0;           ///< the step after which the run began
  std::vector<std::string> damage;  ///< faults of single files, one line each
  std::set<std::string> skipped;    ///< topics of fields that no replay can repeat, other files
  std::map<std::string, std::int64_t> last = {};  ///< the step of the last line of each kind

  /// Adds a value as the table of fields says. A field that it lacks is damage.
  void add(std::int64_t step, const std::string& group, const std::string& name,
           const nlohmann::json& value, const std::string& place);
  /// The object of `text`; another value if it is none. Adds damage if it has a name twice, because
  /// readers differ in which of the two they use.
  nlohmann::json checked(const std::string& text, const std::string& place);
  void sort();
  /// The first value of that name; null: there is none.
  const LoggedValue* find(std::int64_t step, const std::string& name) const;
};

/// The values in metrics.jsonl, summary.json and evaluation.json of `folder`. A last line without
/// its end is no damage: a killed run leaves one. Throws UnreadableFile.
RunLog read_log(const std::filesystem::path& folder);

/// Steps of a run between two states: `begin` is the start of the run, or has a checkpoint.
struct Stretch {
  std::int64_t begin = 0, end = 0;
  bool first = false;  ///< values of earlier steps belong to it too

  bool contains(std::int64_t step) const { return (first || step > begin) && step <= end; }
};

/// Compares what the run claims within `stretch` with the files of its replay. The replay must have
/// each value, and the log of the run each evaluation of the replay. Returns the first difference:
/// "step 6: metrics.jsonl:12 has train loss 1.5, the replay 1.2"; empty: there is none. Adds the
/// number of equal values to `equal`.
std::string compare_logs(const RunLog& run, const RunLog& replay, const Stretch& stretch,
                         std::int64_t& equal);

/// Compares each mean of an epoch with the steps in `replayed`, values of all replays. Returns a
/// line for each that differs. `left`: means of steps that were not all replayed.
std::vector<std::string> compare_means(const RunLog& run, const std::vector<LoggedValue>& replayed,
                                       int& left);

}  // namespace lockstep
