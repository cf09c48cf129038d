// The files of a run's folder that describe it: config.toml, network.toml, summary.json,
// evaluation.json and report.html. They are views of the run's facts and of its progress.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/evaluate/measures.h"
#include "apps/options/run_options.h"
#include "apps/record/progress.h"
#include "apps/record/run_facts.h"
#include "apps/step/run_plan.h"

namespace lockstep {

inline constexpr const char* kConfigFile = "config.toml";
inline constexpr const char* kSummaryFile = "summary.json";
/// The name of weights_sha256() in summary.json and in metrics.jsonl.
inline constexpr const char* kWeightsField = "weights_sha256";
/// The network of --model FILE.toml.
inline constexpr const char* kNetworkFile = "network.toml";

/// Data sets of more classes have no confusion matrix and no curves in evaluation.json.
inline constexpr int kMostInMatrix = 100;

/// The changing part of summary.json.
struct RunRecord {
  std::string status = "running";  ///< or "complete", "stopped", "failed"
  std::int64_t step = 0;           ///< steps done
  RunProgress progress = {};
  Accuracy last = {};        ///< of the last evaluation
  double last_loss = 0;      ///< of the last evaluation
  double images_per_s = 0;   ///< of training since this start; 0: not known
  double train_seconds = 0;  ///< of training since this start
  std::string weights = {};  ///< weights_sha256() after `step`; empty: not known
  std::string reason = {};   ///< why it ended before its last step; empty: it did not
};

/// An evaluation of the run.
struct Evaluated {
  enum class Weights : std::uint8_t { present, best, last };

  const EvaluationResult& result;
  const Dataset& data;    ///< that it evaluated
  std::int64_t done = 0;  ///< steps of the run
  std::int64_t step = 0;  ///< of the weights
  /// present: an evaluation during training. Otherwise that of the test set, after it.
  Weights weights = Weights::present;
  std::string sha256 = {};  ///< weights_sha256() after `done` steps; empty: it is not logged
};

/// All files belong to rank 0, except in failed(). A kill leaves the old or the new file, never a
/// part of one.
class RunFiles {
 public:
  /// `folder`: of the run, claimed; empty: no call does anything. `facts`, `plan`: outlive this.
  RunFiles(const std::string& folder, const RunFacts& facts, const RunPlan& plan);

  /// Writes network.toml, if the network is the user's own, and config.toml with `options`. The
  /// plan's steps, batch and shards are comments if the user left them open. Times of earlier
  /// starts come from the summary.json of the same run, and the changes of its ranks. If
  /// lockstep_run has started the ranks after a change, adds that one. Throws Error.
  void begin(const Options& options);
  /// The change that begin() has added; null: none.
  const RunFacts::Json& change() const { return change_; }
  /// Replaces summary.json; nothing before begin(). Throws Error.
  void write(const RunRecord& record) const;
  /// For a run that was complete before this start. If an earlier start was killed before its last
  /// summary.json, or could not write it, replaces its status, and report.html. Throws Error.
  void complete(const RunRecord& record, const Options& options);
  /// Replaces evaluation.json: counts by class, and the worst mistakes as pictures. `classes`:
  /// names by label. `set`: "test set". `about`: the weights. Throws Error.
  void write(const Evaluated& evaluated, const std::vector<std::string>& classes,
             const std::string& set, const std::string& about) const;
  /// Replaces report.html by the page of all these files; nothing if another process has the
  /// folder now. Any thread, after begin(). Throws Error.
  void write_report() const;
  /// The same while the run trains, after `step`. `next`: seconds that may pass until the next
  /// page.
  void write_live_report(std::int64_t step, double next) const;
  /// Why a run failed, by the rank that ends it: replaces the status "running" in summary.json by
  /// "failed", and adds "reason": the first line of `error`, without the name of the `program`.
  /// Replaces report.html too. Changes nothing if another process has the folder, or if this host
  /// does not see it. Any rank, any thread; throws nothing.
  void failed(const std::string& error, const std::string& program) const noexcept;

 private:
  const std::filesystem::path folder_;
  const RunFacts& facts_;
  const RunPlan& plan_;
  double start_ = 0;                 ///< time of begin()
  double seconds_before_ = 0;        ///< of earlier starts
  RunFacts::Json change_, changes_;  ///< of this start; a list of all; null: none
  std::string began_;             ///< local time of the run's first start
  const std::string holder_;      ///< of the folder, at first
};

/// The facts in the summary.json of `folder`; nothing: the run was killed before it wrote one, or
/// the file is damaged. Throws UnreadableFile.
std::optional<RunFacts> stored_facts(const std::filesystem::path& folder);

}  // namespace lockstep
