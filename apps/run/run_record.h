// The files of a run's folder that describe it: config.toml, network.toml and summary.json.
#pragma once

#include <string>

#include "apps/run/options.h"
#include "apps/run/progress.h"
#include "apps/step/run_plan.h"

namespace lockstep {

inline constexpr const char* kConfigFile = "config.toml";
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

}  // namespace lockstep
