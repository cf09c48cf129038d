// The progress of a run besides its arrays: what its evaluations found. Checkpoints contain it.
#pragma once

#include <cinttypes>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>

#include "apps/options/run_options.h"
#include "src/base/check.h"
#include "src/base/plural.h"

namespace lockstep {

// Names of texts of a checkpoint. The evaluation of the checkpoint's step may change them.
inline constexpr const char* kEvaluation = "evaluation";        ///< "due": it was not done
inline constexpr const char* kReached = "target_reached";       ///< accuracy that met --target
inline constexpr const char* kBest = "best";                    ///< Accuracy
inline constexpr const char* kSinceBest = "evaluations_since";  ///< the best one
inline constexpr const char* kTested = "tested";                ///< Accuracy on the test set

/// The checkpoint of RunProgress::best, beside the newest ones, if the run has a validation set.
inline constexpr const char* kBestFile = "best.h5";

/// Top-1 accuracy of an evaluation.
struct Accuracy {
  std::int64_t step = -1;  ///< of the weights; negative: there was no evaluation
  double top1 = 0;         ///< 0 to 1

  bool known() const { return step >= 0; }
  /// For people: "21.03 % at step 40".
  std::string shown() const { return fmt::format("{:.2f} % at step {}", 100 * top1, step); }
  /// For checkpoints: "top-1 0.2103 at step 40".
  std::string text() const { return fmt::format("top-1 {} at step {}", top1, step); }
  /// Reads text(). Throws Error if `text` is no such text, or if its step is above `last`.
  static Accuracy from(const std::string& text, std::int64_t last) {
    Accuracy result;
    const bool read =
        std::sscanf(text.c_str(), "top-1 %lf at step %" SCNd64, &result.top1, &result.step) == 2;
    require(read && result.known() && result.step <= last && result.top1 >= 0 && result.top1 <= 1,
            "\"{}\" is not an accuracy of a run", text);
    return result;
  }
  bool operator==(const Accuracy&) const = default;
};

/// The same on all ranks.
struct RunProgress {
  bool evaluation_due = false;  ///< after the last step
  double accuracy = 0;          ///< in per cent, of the last evaluation; 0: there was none
  Accuracy best;                ///< of all evaluations on the set that the run is evaluated on
  std::int64_t since_best = 0;  ///< evaluations after the best one
  Accuracy tested;              ///< on the test set, after the end

  /// `loss`: of the same evaluation. If it is NaN, its accuracy is luck: it is no better one, and
  /// reaches no target.
  void evaluated(const Accuracy& now, double loss) {
    accuracy = std::isnan(loss) ? 0 : 100 * now.top1;
    const bool better = !std::isnan(loss) && (!best.known() || now.top1 > best.top1);
    since_best = better ? 0 : since_best + 1;
    if (better) best = now;
  }
  /// Why the run ends before its last step.
  bool reached(const ReportOptions& o) const { return o.target > 0 && accuracy >= o.target; }
  bool gave_up(const ReportOptions& o) const { return o.patience > 0 && since_best >= o.patience; }
  bool over(const ReportOptions& o) const { return reached(o) || gave_up(o); }
  /// For people; empty: it does not.
  std::string reason(const ReportOptions& o) const {
    if (reached(o)) return fmt::format("accuracy {:g} % is reached", o.target);
    if (!gave_up(o)) return "";
    return best.known() ? fmt::format("no better for {}", counted(since_best, "evaluation"))
                        : "the loss of each evaluation is NaN";
  }

  std::map<std::string, std::string> texts(const ReportOptions& o) const {
    std::map<std::string, std::string> result;
    if (evaluation_due) result[kEvaluation] = "due";
    if (reached(o)) result[kReached] = fmt::format("{}", accuracy);
    if (best.known()) result[kBest] = best.text();
    if (since_best > 0) result[kSinceBest] = fmt::format("{}", since_best);
    if (tested.known()) result[kTested] = tested.text();
    return result;
  }
  /// Reads texts() of a checkpoint of `step`. Throws std::exception if one is damaged.
  static RunProgress from(const std::map<std::string, std::string>& texts, std::int64_t step) {
    RunProgress result;
    for (const auto& [name, text] : texts) {
      if (name == kEvaluation) result.evaluation_due = text == "due";
      if (name == kReached) result.accuracy = std::stod(text);
      if (name == kBest) result.best = Accuracy::from(text, step);
      if (name == kSinceBest) result.since_best = std::stoll(text);
      if (name == kTested) result.tested = Accuracy::from(text, step);
    }
    return result;
  }
  bool operator==(const RunProgress&) const = default;
};

}  // namespace lockstep
