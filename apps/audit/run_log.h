// RunLog: the hashes of weights and the results that a run has logged, so that a replay of the run
// can be compared with them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep {

/// A value that a file of the run has for the state after a step.
struct LoggedValue {
  std::int64_t step = 0;
  /// "weights", or the kind and the name of a result: "evaluation top1".
  std::string name;
  nlohmann::json value;
  std::string place;  ///< "metrics.jsonl:12"

  bool is_hash() const { return name == kWeights; }
  /// A hash by its first digits, another value as JSON has it.
  std::string shown() const;
  static constexpr const char* kWeights = "weights";
};

struct RunLog {
  std::vector<LoggedValue> values;  ///< by step
  std::int64_t began = 0;           ///< the step after which the run began
  std::vector<std::string> damage;  ///< lines and files that are no JSON, as "metrics.jsonl:12 ..."

  /// The steps with a hash of the weights, in order, each once.
  std::vector<std::int64_t> hashed_steps() const;
};

/// The values in metrics.jsonl and summary.json of `folder`. A last line without its end is no
/// damage: a killed run leaves one. Throws UnreadableFile.
RunLog read_log(const std::filesystem::path& folder);

/// Steps of a run between two states: `begin` is the start of the run, or has a checkpoint.
struct Stretch {
  std::int64_t begin = 0, end = 0;

  bool contains(std::int64_t step) const { return step > begin && step <= end; }
  bool operator==(const Stretch&) const = default;
};

/// The result of a replay of `stretch`.
struct Comparison {
  int hashes = 0;   ///< steps with equal weights
  int results = 0;  ///< that are equal
  /// The first value that differs: "metrics.jsonl:12 has the weights 3f..., the replay 2a...";
  /// empty: all are equal.
  std::string difference;
  std::int64_t step = 0;  ///< of the difference
};

/// Compares what the run logged within `stretch` with the log of its replay. The replay must have
/// the hash of each step that has one in the run. Results count if both have them.
Comparison compare_logs(const RunLog& run, const RunLog& replay, const Stretch& stretch);

}  // namespace lockstep
