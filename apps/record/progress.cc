#include "apps/record/progress.h"

#include <nlohmann/json.hpp>

#include "src/base/check.h"

namespace lockstep {

using nlohmann::json;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Accuracy, step, top1)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BestEvaluation, step, top1, by, value, loss)

namespace {

/// Throws Error if it is no accuracy of a run that has done `steps`.
void require_possible(const Accuracy& accuracy, std::int64_t steps) {
  require(accuracy.known() && accuracy.step <= steps && accuracy.top1 >= 0 && accuracy.top1 <= 1,
          "top-1 {} at step {} is not an accuracy of the run", accuracy.top1, accuracy.step);
}

}  // namespace

std::string RunProgress::text() const {
  std::vector<BestEvaluation> all = next;
  if (best.known()) all.insert(all.begin(), best);
  return json{{"evaluation_due", evaluation_due},
              {"accuracy", accuracy},
              {"since_best", since_best},
              {"best", all},
              {"tested", tested}}
      .dump();
}

void require_present_form(const CheckpointMetadata& metadata) {
  if (!metadata.text("best").empty()) throw FormerProgress();
}

RunProgress RunProgress::from(const CheckpointMetadata& metadata) {
  RunProgress result{.waiting_lines = metadata.text(kWaitingLines)};
  require_present_form(metadata);
  if (const std::string text = metadata.text(kProgress); !text.empty())
    result.read(json::parse(text), metadata.position.step);
  return result;
}

void RunProgress::read(const json& object, std::int64_t step) {
  object.at("evaluation_due").get_to(evaluation_due);
  object.at("accuracy").get_to(accuracy);
  object.at("since_best").get_to(since_best);
  object.at("tested").get_to(tested);
  if (tested.known()) require_possible(tested, step);
  // A checkpoint may be damaged or edited, and an impossible best evaluation would never be beaten.
  object.at("best").get_to(next);
  for (const BestEvaluation& one : next) {
    require_possible(one, step);
    find(measures(), one.by);
  }
  if (next.empty()) return;
  best = next.front();
  next.erase(next.begin());
}

}  // namespace lockstep
