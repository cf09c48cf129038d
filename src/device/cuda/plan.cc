#include "src/device/cuda/plan.h"

#include <algorithm>
#include <limits>

#include "src/base/check.h"

namespace lockstep::cuda {

bool Convolution::dense() const {
  const auto flat = [](const Shape& shape) { return shape[1] == 1 && shape[2] == 1; };
  return flat(x) && flat(w) && flat(y);
}

std::string Convolution::text() const {
  const char* const passes[] = {"forward", "backward_data", "backward_weights"};
  const auto pair = [](const auto& p) { return fmt::format("{}x{}", p[0], p[1]); };
  return fmt::format("{} {} {} {} {} stride {} pad {} dilation {}{}{}",
                     passes[static_cast<int>(pass)], name_of(type), x.text(), w.text(), y.text(),
                     pair(stride), pair(pad), pair(dilation), bias ? " bias" : "",
                     relu ? " relu" : "");
}

std::shared_ptr<const Plan> Library::plan(const Convolution& work, std::string_view name) const {
  const Plans all = plans(work, std::numeric_limits<std::size_t>::max());
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& plan) { return plan->name() == name; });
  return found == all.end() ? nullptr : *found;
}

}  // namespace lockstep::cuda
