// StoredRun: a run as the files in its folder describe it.
#pragma once

#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// The object in JSON, without values that are nested too deep for other work on it; null: it is
/// damaged, or no object.
nlohmann::ordered_json object_in(const std::string& text);

/// `value` in JSON. Bytes that are not UTF-8 are replaced.
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

/// The text at `path` in `value`, such as "/best/by"; empty: there is none.
template <class Json>
std::string text_in(const Json& value, const char* path) {
  const typename Json::json_pointer at(path);
  const bool found = value.contains(at) && value.at(at).is_string();
  return found ? value.at(at).template get<std::string>() : "";
}

/// The rows of one kind in metrics.jsonl, by column. A value that a row lacks, or that is not
/// finite, is NaN.
struct MetricRows {
  std::size_t count = 0;
  std::map<std::string, std::vector<double>> columns;

  double at(const std::string& name, std::size_t row) const;  ///< NaN: there is no such column
  double last(const std::string& name) const;  ///< of the last row that has it; NaN: none
};

/// Parts that a folder lacks are empty, or null.
struct StoredRun {
  std::filesystem::path folder;
  std::string name = {};  ///< of the folder
  /// The options, from config.toml with the comments about its defaults, or from the last line of
  /// kind "run".
  std::vector<std::pair<std::string, std::string>> options = {};
  nlohmann::ordered_json summary = {};     ///< summary.json
  nlohmann::ordered_json start = {};       ///< the last line of kind "run", without its options
  nlohmann::ordered_json evaluation = {};  ///< evaluation.json
  std::map<std::string, MetricRows> rows = {};  ///< metrics.jsonl by kind
  /// Time of its last line in metrics.jsonl, as wall_time(); NaN: there is none.
  double last_sign = std::numeric_limits<double>::quiet_NaN();

  /// The value of an option without quotes; empty: it has none.
  std::string option(const std::string& name) const;
  /// null: there is no such kind.
  const MetricRows& of(const std::string& kind) const;
};

/// A number in JSON, without a fraction if it is whole; null: it is not finite.
nlohmann::ordered_json number_json(double value);

/// The results of a run, from summary.json or else from its rows: texts, which are empty if they
/// are not known, and numbers, which are null then.
///   status
///   best, best_step       accuracy, 0 to 1, of the best evaluation
///   by, value             what makes it best, if that is not accuracy ("f1", "loss"); its value
///   last, loss            accuracy and loss of the last evaluation
///   test                  accuracy on the test set, after the end
///   train_loss, step, steps, seconds, images_per_s    steps done, and steps of the whole run
nlohmann::ordered_json results_of(const StoredRun& run);

/// Reads the files of `folder`. Lines and files that are no JSON are left out. The times of the
/// rows omit the pauses between starts.
StoredRun read_run(const std::filesystem::path& folder);

/// The path that a user's name of a run stands for: runs/NAME if that is a run, else NAME itself,
/// which may be a folder, a file or nothing. Throws the usage Error if both are runs.
std::filesystem::path path_of_run(const std::string& name);

/// Throws the usage Error for a name of nothing.
[[noreturn]] void fail_no_run(const std::string& name);

/// The runs that a user names: by path_of_run(), by their checkpoints/, or by a file in it. Passes
/// over pages of compare_runs, which a pattern such as runs/* matches. Throws the usage Error for a
/// folder that contains none of these files.
std::vector<StoredRun> find_runs(const std::vector<std::string>& names);

}  // namespace lockstep
