#include "src/device/cuda/plan.h"

#include <fmt/format.h>

namespace lockstep::cuda {
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

std::shared_ptr<const Plan> choose(const Libraries& libraries, const Convolution& work) {
  for (const Library* library : libraries)
    if (auto plan = library->plan(work)) return plan;
  return nullptr;
}

}  // namespace lockstep::cuda
