// Reporter: rank 0's reports of a run: lines and a bar on stdout, metrics.jsonl, TensorBoard.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/run/metrics.h"
#include "apps/run/options.h"
#include "apps/run/run_folders.h"
#include "apps/step/run_plan.h"
#include "net/parameters.h"
#include "src/report/report.h"

namespace lockstep {

/// On ranks other than 0 every call does nothing. begin() throws Error if the files cannot be
/// opened. Later a report that cannot be written (a full disk, a closed stdout) does not end the
/// run: stderr gets a warning once, and again at the end if the files are incomplete. If another
/// run has taken over the folders, nothing is written to them and the call throws Error on rank 0.
/// Owner: train(), which keeps the arguments alive. Thread: the computing one.
class Reporter {
 public:
  /// `folders`: null on ranks other than 0. `keep_waiting`: see Console.
  Reporter(const Comm& comm, const Options& options, const RunPlan& plan, const RunFolders* folders,
           const std::function<bool()>& keep_waiting);

  void line(const std::string& text);  ///< to stdout
  /// The best evaluation of the run so far: "top-1 0.2103 at step 40"; empty: none was done.
  std::string best() const;
  /// Before begin(), in a run that resumes: best() of its checkpoint. Throws Error if `best` is no
  /// such text, or is of a later step than the checkpoint.
  void restore_best(const std::string& best);
  /// Training begins: opens the files of --log-dir, and writes the line of kind "run" into
  /// metrics.jsonl. Lines of this run stay up to its checkpoint, without the evaluation of its step
  /// if that is done again; logs of another run are moved aside with a line.
  void begin(bool evaluates_anew);
  void step(const StepReport& report);                     ///< line, JSON, scalars
  void progress(std::int64_t step, double loss);           ///< the bar
  void evaluating(double share);                           ///< the bar during an evaluation
  void histograms(std::int64_t step, const Layout& layout, const float* parameters,
                  const float* gradients);
  void sync();  ///< returns when the lines of metrics.jsonl have reached the disk
  void saved(std::int64_t step, const std::filesystem::path& file);  ///< line
  /// `weights`: their name in the line.
  void evaluation(std::int64_t step, double epoch, const Score& score, const char* weights);
  /// The end of an epoch: line and JSON. `score`: of the test set.
  void epoch(std::int64_t step, const EpochReport& report, const Score& score);
  /// The end of training after `step`: its speed, its accuracy and its files.
  /// `seconds`: only of training. `skipped`: steps since the start without an update.
  void summary(std::int64_t step, double seconds, std::int64_t skipped);

 private:
  struct Tested {
    std::int64_t step = -1;  ///< negative: there was none
    double top1 = 0;

    std::string text() const;
  };

  void see(const Tested& tested);
  std::string step_text(std::int64_t step) const;
  std::string run_line() const;
  void line(const std::vector<std::string>& parts);
  void bar(const std::string& note);
  /// A report that cannot be written is a warning, once, and does not end the run.
  void attempt(const std::function<void()>& write, bool& failed);
  void files(const std::function<void()>& write);
  void log(const char* kind, std::int64_t step, const Metrics& metrics, bool scalars = true);
  void warn(const std::string& text) const;

  const Options& options_;
  const RunPlan& plan_;
  const RunFolders* folders_;
  int ranks_;
  std::optional<Console> console_;  ///< on rank 0
  std::optional<JsonLines> json_;
  std::optional<EventFile> events_;
  double begin_ = 0;
  std::int64_t done_ = 0;
  double images_per_s_ = 0;  ///< of the last report
  Tested last_;              ///< of this start
  Tested best_;              ///< of the run, as far as its checkpoint and metrics.jsonl know
  std::string lost_;         ///< why a report could not be written, the first time
  bool lost_lines_ = false;
};

}  // namespace lockstep
