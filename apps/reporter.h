// Reporter: what rank 0 tells while training: lines and bar on stdout, metrics.jsonl, TensorBoard.
#pragma once

#include <memory>
#include <string>

#include "apps/evaluation.h"
#include "apps/options.h"
#include "apps/run_plan.h"
#include "net/parameters.h"

namespace lockstep {

/// The steps since the last report.
struct StepReport {
  std::int64_t step = 0;  ///< steps done
  double epoch = 0;
  double loss = 0;  ///< of this step's batch: cross_entropy + penalty
  double cross_entropy = 0, penalty = 0;
  double batch_top1 = 0;  ///< share of this step's batch
  double images_per_s = 0, seconds_per_batch = 0;
  double learning_rate = 0;
  double exposed_communication =
      0;                   ///< share of the time that the computing thread waited for sums
  double loader_wait = 0;  ///< share of the time that it waited for samples
};

/// On ranks other than 0 every call does nothing. Throws Error where a file cannot be written.
class Reporter {
 public:
  Reporter(bool active, const Options& options, const RunPlan& plan);
  ~Reporter();

  void line(const std::string& text);   ///< to stdout
  void step(const StepReport& report);  ///< line, JSON, scalars
  void progress(std::int64_t step, double loss);
  void histograms(std::int64_t step, const Layout& layout, const float* parameters,
                  const float* gradients);
  void evaluation(std::int64_t step, double epoch, const EvaluationResult& result,
                  const char* weights);
  void flush();

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

/// "top-1 71.30 %, top-5 97.10 %, loss 0.912 (10000 samples)"
std::string score_text(const Score& score);

}  // namespace lockstep
