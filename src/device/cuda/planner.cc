#include "src/device/cuda/planner.h"

#include "src/base/check.h"

namespace lockstep::cuda {
namespace {

/// Racers of one library: its heuristic has seldom more to offer, and its favourites come first.
constexpr std::size_t kMostRacers = 48;

std::string platform(const std::vector<const Library*>& libraries, const std::string& device) {
  std::string text;
  for (const Library* library : libraries) text += (text.empty() ? "" : ", ") + library->version();
  return text + " on " + device;
}

}  // namespace

Planner::Planner(std::vector<const Library*> libraries, const std::string& device)
    : libraries_(std::move(libraries)), tuning_(platform(libraries_, device)) {}

std::shared_ptr<const Plan> Planner::choose(const Convolution& work) {
  const std::string text = work.text();
  if (const std::string* name = tuning_.find(text)) {
    for (const Library* library : libraries_) {
      if (auto plan = library->plan(work, *name)) return plan;
    }
    fail("the tuned plan {} is not offered for {}: tune again", *name, text);
  }
  Plans plans;
  for (const Library* library : libraries_) {
    if (!race_ && !plans.empty()) break;
    for (auto& plan : library->plans(work, race_ ? kMostRacers : 1))
      plans.push_back(std::move(plan));
  }
  if (plans.empty()) return nullptr;
  const std::size_t best = race_ && plans.size() > 1 ? race_(work, plans) : 0;
  if (race_) tuning_.note(text, plans[best]->name());
  return plans[best];
}

}  // namespace lockstep::cuda
