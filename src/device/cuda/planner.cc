#include "src/device/cuda/planner.h"

#include <algorithm>
#include <limits>

#include "src/base/check.h"

namespace lockstep::cuda {
namespace {

/// Racers per library. The best are first, and later ones rarely win but cost as much time.
constexpr std::size_t kMostRacers = 12;

std::string platform(const std::vector<const Library*>& libraries, const std::string& device) {
  std::string text;
  for (const Library* library : libraries) text += (text.empty() ? "" : ", ") + library->version();
  return text + " on " + device;
}

}  // namespace

bool Convolution::dense() const {
  const auto flat = [](const Shape& shape) { return shape[1] == 1 && shape[2] == 1; };
  return flat(x) && flat(w) && flat(y);
}

std::string Convolution::text() const {
  const char* const passes[] = {"forward", "backward_data", "backward_weights"};
  const auto pair = [](const auto& p) { return fmt::format("{}x{}", p[0], p[1]); };
  return fmt::format(
      "{} {} {} {} {} stride {} pad {} dilation {}{}{}{}{}{}", passes[static_cast<int>(pass)],
      name_of(type), x.text(), w.text(), y.text(), pair(stride), pair(pad), pair(dilation),
      bias ? " bias" : "", relu ? " relu" : "", tf32 ? " tf32" : "",
      layers > 1 ? fmt::format(" layers {}", layers) : "", fp32_result ? " fp32_result" : "");
}

std::shared_ptr<const Plan> Library::plan(const Convolution& work, std::string_view name) const {
  const Plans all = plans(work, std::numeric_limits<std::size_t>::max());
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& plan) { return plan->name() == name; });
  return found == all.end() ? nullptr : *found;
}

Planner::Planner(std::vector<const Library*> libraries, const std::string& device)
    : libraries_(std::move(libraries)), tuning_(platform(libraries_, device)) {}

std::shared_ptr<const Plan> Planner::choose(const Convolution& work) {
  const std::string text = work.text();
  const std::string* name = tuning_.find(text);
  if (name == nullptr) name = tuning_.find(Tuning::kUntimed + text);
  if (name != nullptr) {
    for (const Library* library : libraries_) {
      if (auto plan = library->plan(work, *name)) return plan;
    }
    require(race_ != nullptr, "the tuned plan {} is not offered for {}; tune again", *name, text);
  }
  const bool races = race_ != nullptr && !race_->over();
  Plans plans;
  for (const Library* library : libraries_) {
    if (!races && !plans.empty()) break;
    for (auto& plan : library->plans(work, races ? kMostRacers : 1))
      plans.push_back(std::move(plan));
  }
  if (plans.empty()) return nullptr;
  const std::size_t best = races && plans.size() > 1 ? race_->winner(work, plans) : 0;
  if (race_ != nullptr) tuning_.note((races ? "" : Tuning::kUntimed) + text, plans[best]->name());
  return plans[best];
}

}  // namespace lockstep::cuda
