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

RunProgress RunProgress::from(const std::map<std::string, std::string>& texts, std::int64_t step) {
  RunProgress result;
  if (const auto lines = texts.find(kWaitingLines); lines != texts.end())
    result.waiting_lines = lines->second;
  const auto found = texts.find(kProgress);
  if (found == texts.end()) {
    require(!texts.contains("best"), "its progress is in the form of an earlier version");
    return result;
  }
  const json object = json::parse(found->second);
  object.at("evaluation_due").get_to(result.evaluation_due);
  object.at("accuracy").get_to(result.accuracy);
  object.at("since_best").get_to(result.since_best);
  object.at("tested").get_to(result.tested);
  if (result.tested.known()) require_possible(result.tested, step);
  const std::vector<BestEvaluation> all = object.at("best");
  for (const BestEvaluation& one : all) {
    require_possible(one, step);
    find(measures(), one.by);
  }
  if (all.empty()) return result;
  result.best = all.front();
  result.next.assign(all.begin() + 1, all.end());
  return result;
}

}  // namespace lockstep
