// Reporter: what rank 0 reports of a run: lines and bar on stdout, metrics.jsonl, TensorBoard.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "apps/run/metrics.h"
#include "apps/run/options.h"
#include "apps/run/run_folders.h"
#include "apps/step/run_plan.h"
#include "net/parameters.h"

namespace lockstep {

/// On ranks other than 0 every call does nothing. begin() throws Error if the files cannot be
/// opened. From then on a report that cannot be written (a full disk, a closed stdout) does not end
/// the run: stderr says so once, and again at the end if the files could not take it later.
/// `keep_waiting` is asked while a reader of stdout pauses (src/report/report.h). `folders`: null
/// on ranks other than 0. If another run has taken them over, nothing is written to them and the
/// call throws Error only on rank 0. Owner: train(), which keeps the arguments alive. Thread: the
/// computing one.
class Reporter {
 public:
  Reporter(const Comm& comm, const Options& options, const RunPlan& plan, const RunFolders* folders,
           const std::function<bool()>& keep_waiting);
  ~Reporter();

  void line(const std::string& text);  ///< to stdout
  /// The best evaluation of the run so far: "top-1 0.2103 at step 40"; empty: none was done.
  std::string best() const;
  /// Before begin(), in a run that goes on: best() of its checkpoint. Throws Error if `best` is no
  /// such text, or is of a later step than the checkpoint.
  void go_on_from(const std::string& best);
  /// Training begins: opens the files of --log-dir, and writes the line of kind "run" into
  /// metrics.jsonl. What is there already of this very run stays up to its checkpoint, without the
  /// evaluation of its step if that is done again; logs of another run are set aside with a line.
  void begin(bool evaluates_anew);
  void step(const StepReport& report);                     ///< line, JSON, scalars
  void progress(std::int64_t step, double cross_entropy);  ///< the bar
  void evaluating(double share);                           ///< the bar during an evaluation
  void histograms(std::int64_t step, const Layout& layout, const float* parameters,
                  const float* gradients);
  void sync();  ///< returns when the lines of metrics.jsonl have reached the disk
  void saved(std::int64_t step, const std::filesystem::path& file);  ///< line
  /// `weights`: which ones, for the line.
  void evaluation(std::int64_t step, double epoch, const Score& score, const char* weights);
  /// The end of an epoch: line and JSON. `score`: of the test set.
  void epoch(std::int64_t step, const EpochReport& report, const Score& score);
  /// The end of training after `step`: its speed, its accuracy and its files.
  /// `seconds`: only of training. `skipped`: steps since the start without an update.
  void summary(std::int64_t step, double seconds, std::int64_t skipped);

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace lockstep
