// The files of a run's folder that describe it: config.toml, network.toml, summary.json,
// evaluation.json and report.html.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/run/evaluation.h"
#include "apps/record/progress.h"
#include "apps/options/run_options.h"
#include "apps/step/run_plan.h"

namespace lockstep {

inline constexpr const char* kConfigFile = "config.toml";
inline constexpr const char* kSummaryFile = "summary.json";
/// The network of --model FILE.toml.
inline constexpr const char* kNetworkFile = "network.toml";

/// The changing part of summary.json.
struct RunRecord {
  const char* status = "running";  ///< or "complete", "stopped", "failed"
  std::int64_t step = 0;           ///< steps done
  RunProgress progress = {};
  Accuracy last = {};        ///< of the last evaluation
  double last_loss = 0;      ///< of the last evaluation
  double images_per_s = 0;   ///< of training since this start; 0: not known
  double train_seconds = 0;  ///< of training since this start
};

/// The part of summary.json that is known when training begins.
struct RunFacts {
  std::vector<std::pair<std::string, std::size_t>> memory = {};  ///< bytes on rank 0, by part
  std::string device = {}, libraries = {}, data = {};
  /// As the start-up summary describes them.
  std::string reducer = {}, progress = {}, order = {};
  std::vector<std::int64_t> buckets = {};  ///< bytes of each
  std::int64_t parameters = 0, hosts = 0;
  double gflop = 0;                      ///< of a rank's part of a step
  std::vector<std::string> places = {};  ///< placement_lines(), at most kMostPlaces

  static constexpr std::size_t kMostPlaces = 256;  ///< a file of 4096 lines helps no reader
};

/// An evaluation for evaluation.json.
struct EvaluatedClasses {
  const EvaluationResult& result;
  const Dataset& data;                      ///< that it evaluated
  const std::vector<std::string>& classes;  ///< names by label
  std::string set;                          ///< "test set"
  std::string about;                        ///< the weights
  std::int64_t step = 0;                    ///< of the weights
};

/// All files belong to rank 0. A kill leaves the old or the new file, never a part of one.
class RunRecordFiles {
 public:
  /// `options`, `plan`: outlive this. Does nothing if the run has no folder.
  RunRecordFiles(const Options& options, const RunPlan& plan, int ranks)
      : options_(options), plan_(plan), ranks_(ranks) {}

  /// Writes network.toml, if the network is the user's own, and config.toml. The plan's steps,
  /// batch and shards are comments if the user left them open. Times of earlier starts come from
  /// the summary.json of the same run. Throws Error.
  void begin();
  void know(const RunFacts& facts) { facts_ = facts; }  ///< before write()
  /// Replaces summary.json; nothing before begin(). Throws Error.
  void write(const RunRecord& record) const;
  /// For a run that was complete before this start. If an earlier start was killed before its last
  /// summary.json, or could not write it, replaces its status, and report.html. Throws Error.
  void complete(const RunRecord& record);
  /// Replaces evaluation.json: counts by class, and the worst mistakes as pictures. Throws Error.
  void write(const EvaluatedClasses& evaluated) const;
  /// Replaces report.html by the page of all these files. `may_skip`: leaves it as it is if pages
  /// would take a hundredth of the run's time. Throws Error.
  void write_report(bool may_skip);

 private:
  const Options& options_;
  const RunPlan& plan_;
  int ranks_;
  double start_ = 0;           ///< time of begin()
  double seconds_before_ = 0;  ///< of earlier starts
  std::string began_;          ///< local time of the run's first start
  RunFacts facts_;
  double page_time_ = 0, page_seconds_ = 0;  ///< end of the last write_report(), and its duration
};

/// The batch and the shards of a run.
struct RecordedShape {
  std::int64_t global_batch = 0, shards = 0;
};
/// Those in the summary.json of `folder`; nothing: the run was killed before it wrote one.
std::optional<RecordedShape> recorded_shape(const std::filesystem::path& folder);

/// Writes why a run failed. All ranks construct one when training begins, because the rank that
/// ends the run is the one that writes.
class FailureRecord {
 public:
  /// `run`: the id of the run. Does nothing if the run has no folder.
  FailureRecord(const Options& options, std::string run);
  /// Replaces the status "running" in summary.json by "failed", and adds "reason": the first line
  /// of `error`, without the name of the program. Replaces report.html too. Changes nothing if
  /// another process has the folder, or if this host does not see it. Any thread; throws nothing.
  void write(const std::string& error) const noexcept;

 private:
  std::filesystem::path folder_;
  std::string log_dir_, program_, run_;
  std::string holder_;  ///< of the folder, when training began
};

}  // namespace lockstep
