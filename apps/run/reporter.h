// Reporter: what rank 0 tells while training: lines and bar on stdout, metrics.jsonl, TensorBoard.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/run/epoch_record.h"
#include "apps/run/evaluation.h"
#include "apps/run/options.h"
#include "apps/run/run_folders.h"
#include "apps/step/run_plan.h"
#include "apps/step/straggler.h"
#include "net/loss_scale.h"
#include "net/parameters.h"

namespace lockstep {

/// The steps since the last report.
struct StepReport {
  std::int64_t step = 0;  ///< steps done
  double epoch = 0;
  double cross_entropy = 0, penalty = 0;  ///< of this step's batch; their sum is the loss
  double batch_top1 = 0;                  ///< share of this step's batch
  double images_per_s = 0, seconds_per_batch = 0;
  double learning_rate = 0;
  /// Shares of the time that the computing thread waited for sums, and for samples.
  double exposed_communication = 0, loader_wait = 0;
  std::optional<Straggler> straggler;  ///< as far as somebody looked
  /// After the step; none where it is not dynamic.
  std::optional<LossScale> loss_scale = {};
};

/// On ranks other than 0 every call does nothing. begin() throws Error where the files cannot be
/// opened. From then on a report that cannot be written (a full disk, a closed stdout) is not the
/// end of the run: stderr says so once, and again at the end if the files could not take it later.
/// `keep_waiting` is asked while a reader of stdout pauses (src/report/report.h). `folders`: null
/// on ranks other than 0. If another run has taken them over, nothing is written to them and the
/// call throws Error on rank 0 alone.
class Reporter {
 public:
  Reporter(const Comm& comm, const Options& options, const RunPlan& plan, const RunFolders* folders,
           const std::function<bool()>& keep_waiting);
  ~Reporter();

  void line(const std::string& text);  ///< to stdout
  /// The best evaluation of the run so far: "top-1 0.2103 at step 40"; empty: none was done.
  std::string best() const;
  /// Before begin(), in a run that goes on: best() of its checkpoint. Throws Error for other texts.
  void go_on_from(const std::string& best);
  /// Training begins: opens the files of --log-dir, and writes the line of kind "run" into
  /// metrics.jsonl. What is there already of this very run stays up to its checkpoint, without the
  /// evaluation of its step where that is done anew; logs of another run are set aside with a line.
  void begin(bool evaluates_anew);
  void step(const StepReport& report);                     ///< line, JSON, scalars
  void progress(std::int64_t step, double cross_entropy);  ///< the bar
  void evaluating(double share);                           ///< the bar during an evaluation
  void histograms(std::int64_t step, const Layout& layout, const float* parameters,
                  const float* gradients);
  void sync();  ///< returns when the lines of metrics.jsonl have reached the disk
  void saved(std::int64_t step, const std::filesystem::path& file);  ///< line
  void evaluation(std::int64_t step, double epoch, const EvaluationResult& result,
                  const char* weights);
  /// The end of an epoch: line and JSON. `result`: of the test set.
  void epoch(std::int64_t step, std::int64_t number, const EpochRecord& trained,
             const EvaluationResult& result);
  /// The end of training after `step`: what it took, what came of it and where that is.
  /// `seconds`: of training alone. `skipped`: steps since the start without an update.
  void summary(std::int64_t step, double seconds, std::int64_t skipped);

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

/// "top-1 71.30 %, top-5 97.10 %, cross-entropy 0.9120, 10000 samples", in its parts
std::vector<std::string> score_parts(const Score& score);

}  // namespace lockstep
