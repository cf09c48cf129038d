// The progress of a run besides its arrays: what its evaluations found. Checkpoints contain it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "apps/options/run_options.h"
#include "net/checkpoint.h"
#include "src/base/plural.h"

namespace lockstep {

/// Text of a checkpoint: RunProgress::text(). The evaluation of the checkpoint's step changes it.
inline constexpr const char* kProgress = "progress";
/// Lines of metrics.jsonl that a full or failing disk has not taken yet.
inline constexpr const char* kWaitingLines = "waiting_lines";

/// The checkpoint of RunProgress::best, beside the newest ones, if the run has a validation set.
inline constexpr const char* kBestFile = "best.h5";
/// With --keep-best above 1, the name of each of the best checkpoints: "best-0000000040.h5".
inline std::string best_name(std::int64_t step) { return fmt::format("best-{:010}.h5", step); }

/// Top-1 accuracy of an evaluation.
struct Accuracy {
  std::int64_t step = -1;  ///< of the weights; negative: there was no evaluation
  double top1 = 0;         ///< 0 to 1

  bool known() const { return step >= 0; }
  /// For people: "21.03 % at step 40".
  std::string shown() const { return fmt::format("{:.2f} % at step {}", 100 * top1, step); }
  bool operator==(const Accuracy&) const = default;
};

/// An evaluation as --best compares it.
struct BestEvaluation : Accuracy {
  std::string by = "accuracy";  ///< --best
  double value = 0;             ///< of `by`
  double loss = 0;

  /// "21.03 % at step 40", or "f1 0.1934, 21.03 % at step 40"
  std::string shown() const {
    return (by == "accuracy" ? "" : fmt::format("{} {:.4f}, ", by, value)) + Accuracy::shown();
  }
  /// An evaluation by another measure is never better.
  bool has_better_value_than(const BestEvaluation& other) const {
    return find(measures(), by).lower_is_better ? value < other.value : value > other.value;
  }
  /// Among equal values the smaller loss is better.
  bool better_than(const BestEvaluation& other) const {
    return value == other.value ? loss < other.loss : has_better_value_than(other);
  }
  bool operator==(const BestEvaluation&) const = default;
};

/// A checkpoint has the progress in the form of an earlier version.
struct FormerProgress : Error {
  FormerProgress() : Error("its progress is in the form of an earlier version", kExitData) {}
};

/// Throws FormerProgress.
void require_present_form(const CheckpointMetadata& metadata);

/// The same on all ranks.
struct RunProgress {
  bool evaluation_due = false;  ///< after the last step
  double accuracy = 0;          ///< in per cent, of the last evaluation; 0: there was none
  BestEvaluation best = {};     ///< of all evaluations on the set that the run is evaluated on
  std::vector<BestEvaluation> next = {};  ///< the best ones after it, at most --keep-best - 1
  std::int64_t since_best = 0;            ///< evaluations after the last one with a better value
  Accuracy tested = {};                   ///< on the test set, after the end
  std::string waiting_lines = {};         ///< kWaitingLines of the state that the run resumed from

  /// `keep`: --keep-best. If the loss is NaN, the accuracy is luck: the evaluation is no better
  /// one, and reaches no target. If --best has changed, the best ones so far no longer count.
  void evaluated(const BestEvaluation& now, int keep) {
    const bool valid = !std::isnan(now.loss) && !std::isnan(now.value);
    accuracy = std::isnan(now.loss) ? 0 : 100 * now.top1;
    ++since_best;
    if (!valid) return;
    std::vector<BestEvaluation> all;
    if (best.known() && best.by == now.by) {
      all = next;
      all.insert(all.begin(), best);
    }
    if (all.empty() || now.has_better_value_than(best)) since_best = 0;
    const auto worse = [&](const BestEvaluation& other) { return now.better_than(other); };
    all.insert(std::ranges::find_if(all, worse), now);
    best = all.front();
    all.resize(std::min(all.size(), static_cast<std::size_t>(keep)));
    next.assign(all.begin() + 1, all.end());
  }
  /// Whether the evaluation after `step` is one of the best ones.
  bool is_among_best(std::int64_t step) const {
    return best.step == step || std::ranges::count(next, step, &BestEvaluation::step) > 0;
  }
  /// Why the run ends before its last step.
  bool reached(const ReportOptions& o) const { return o.target > 0 && accuracy >= o.target; }
  bool gave_up(const ReportOptions& o) const { return o.patience > 0 && since_best >= o.patience; }
  bool over(const ReportOptions& o) const { return reached(o) || gave_up(o); }
  /// For people; empty: it does not.
  std::string reason(const ReportOptions& o) const {
    if (reached(o)) return fmt::format("accuracy {:g} % is reached", o.target);
    if (!gave_up(o)) return "";
    return best.known()
               ? fmt::format("no better {} in {}", best.by, counted(since_best, "evaluation"))
               : "the loss of each evaluation is NaN";
  }

  /// For checkpoints, in JSON.
  std::string text() const;
  /// Reads kProgress and kWaitingLines of a checkpoint; without them the progress is that of no
  /// evaluation. Throws std::exception if one is damaged.
  static RunProgress from(const CheckpointMetadata& metadata);
  /// Reads text() of a checkpoint of `step`, parsed. Throws std::exception if it is damaged.
  void read(const nlohmann::json& object, std::int64_t step);
  bool operator==(const RunProgress&) const = default;
};

}  // namespace lockstep
