// Reporter: rank 0's reports of a run: lines and a bar on stdout, metrics.jsonl, TensorBoard.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/record/progress.h"
#include "apps/record/run_files.h"
#include "apps/record/run_place.h"
#include "apps/step/run_plan.h"
#include "apps/step/share_tuner.h"
#include "apps/tell/live_page.h"
#include "apps/tell/metrics.h"
#include "net/parameters.h"
#include "src/report/report.h"

namespace lockstep {

/// On ranks other than 0 every call does nothing. begin() throws Error if the files cannot be
/// opened. Later a report that cannot be written (a full disk, a closed stdout) does not end the
/// run: stderr gets a warning once, and again at the end if the files are incomplete. If another
/// run has taken over the folder, nothing is written to it and the call throws Error on rank 0.
/// Owner: train(), which keeps the arguments alive. Thread: the computing one.
class Reporter {
 public:
  /// `run`, `facts`, `place`: outlive this. `keep_waiting`: see Console.
  Reporter(const RunParts& run, const RunFacts& facts, const RunPlace& place,
           const std::function<bool()>& keep_waiting);

  void line(const std::string& text);     ///< to stdout, not with --quiet
  /// The same with a heading of at most 12 characters; no line for an empty text.
  void line(const char* heading, const std::string& text);
  void line(const char* heading, const std::vector<std::string>& texts);  ///< a line for each
  void result(const std::string& text);   ///< to stdout, also with --quiet
  void warning(const std::string& text);  ///< to stdout; with --quiet to stderr
  /// Training begins: opens the files of the run's folder, and writes the line of kind "run" into
  /// metrics.jsonl. Lines of this run stay up to its checkpoint, except those of kind `redone` of
  /// its step; logs of another run are moved aside with a line. `weights`: weights_sha256() of
  /// --init; empty: not in the line.
  void begin(const char* redone, const RunProgress& progress, const std::string& weights);
  void step(const StepReport& report);                               ///< line, JSON, scalars
  void hosts(std::int64_t step, const std::vector<HostUse>& hosts);  ///< JSON, scalars
  void progress(std::int64_t step, double loss);                     ///< the bar
  void clear();                                                      ///< removes the bar
  void evaluating(double share);  ///< the bar during an evaluation
  void histograms(std::int64_t step, const Layout& layout, const float* parameters,
                  const float* gradients);
  void flush();  ///< writes the lines of metrics.jsonl that wait
  /// Those that wait because the disk is full or fails, at most the last 512 KiB.
  std::string waiting_lines() const;
  /// Line and JSON. `weights`: weights_sha256() of the checkpoint.
  void saved(std::int64_t step, const std::filesystem::path& file, const std::string& weights);
  /// Line, JSON, scalars, and the classes for evaluation.json.
  void evaluation(const Evaluated& evaluated);
  void reached_target(std::int64_t step);                                    ///< line
  void shares(std::int64_t step, const Shares& shares);                      ///< JSON, scalars
  void shares_changed(std::int64_t step, const ShareTuner::Change& change);  ///< and a line
  void left_out(const std::string& fact);   ///< line: a damaged image
  void ended(const RunProgress& progress);  ///< lines: why training ended before its last step
  /// The end of an epoch: line and JSON.
  void epoch(std::int64_t step, const EpochReport& report, const EvaluationResult& result);
  /// RunFiles::failed(). Any rank, any thread.
  void failed(const std::string& error) const noexcept {
    run_files_.failed(error, run_.options.program);
  }
  /// The run was complete before this start: RunFiles::complete(). `weights`: weights_sha256()
  /// after `step`, on rank 0.
  void complete(std::int64_t step, const RunProgress& progress, const std::string& weights);
  /// Replaces summary.json and report.html of the run's folder. `seconds`: only of training. While
  /// the status is "running", a thread writes report.html. Another status is the end of training:
  /// lines with its speed, its accuracy and its files. "complete" also ends TensorBoard's session.
  void record(const char* status, std::int64_t step, double seconds, const RunProgress& progress,
              const std::string& weights);

 private:
  void summary();  ///< lines at the end: record_
  std::string step_text(std::int64_t step) const;
  /// Fills record_.
  void describe(const char* status, std::int64_t step, const RunProgress& progress,
                const std::string& weights);
  void line(const std::vector<std::string>& parts);
  void bar(const std::string& note);
  /// A report that cannot be written is a warning, once, and does not end the run. False: it was
  /// not written.
  bool attempt(const std::function<void()>& write);
  void print(const std::function<void()>& write);  ///< to stdout
  void files(const std::function<void()>& write);
  /// `weights`: weights_sha256(); empty: not in the line.
  void log(const char* kind, std::int64_t step, const Metrics& metrics, bool scalars = true,
           const std::string& weights = "");
  void warn(const std::string& text) const;

  const RunParts& run_;
  const RunFacts& facts_;
  const RunPlace& place_;
  std::optional<Console> console_;  ///< on rank 0
  std::optional<JsonLines> json_;
  std::optional<EventFile> events_;
  double begin_ = 0;
  std::atomic<std::int64_t> done_ = 0;  ///< steps; the thread of live_ reads it
  double images_per_s_ = 0;             ///< of the last report
  StragglerLines stragglers_;
  RunFiles run_files_;
  RunRecord record_;  ///< its last evaluation is of this start
  std::string lost_;  ///< why a report could not be written, the first time
  bool lost_lines_ = false;
  std::optional<LivePage> live_;  ///< while the run trains; last: it uses the others
};

}  // namespace lockstep
