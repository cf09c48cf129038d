// The files of a run's folder that describe it: config.toml and summary.json.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "apps/run/options.h"
#include "apps/run/progress.h"
#include "apps/step/run_plan.h"

namespace lockstep {

inline constexpr const char* kConfigFile = "config.toml";
inline constexpr const char* kSummaryFile = "summary.json";

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

/// All files belong to rank 0. A kill leaves the old or the new file, never a part of one.
class RunRecordFiles {
 public:
  /// `options`, `plan`: outlive this. Does nothing if the run has no folder.
  RunRecordFiles(const Options& options, const RunPlan& plan, int ranks)
      : options_(options), plan_(plan), ranks_(ranks) {}

  /// Writes config.toml. The plan's steps, batch and shards are comments if the user left them
  /// open. Times of earlier starts come from the summary.json of the same run. Throws Error.
  void begin();
  /// Replaces summary.json; nothing before begin(). Throws Error.
  void write(const RunRecord& record) const;

 private:
  const Options& options_;
  const RunPlan& plan_;
  int ranks_;
  double start_ = 0;           ///< time of begin()
  double seconds_before_ = 0;  ///< of earlier starts
  std::string began_;          ///< local time of the run's first start
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
  /// of `error`, without the name of the program. Changes nothing if another process has the
  /// folder, or if this host does not see it. Any thread; throws nothing.
  void write(const std::string& error) const noexcept;

 private:
  std::filesystem::path folder_;
  std::string program_, run_;
  std::string holder_;  ///< of the folder, when training began
};

}  // namespace lockstep
