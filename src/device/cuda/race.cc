#include "src/device/cuda/race.h"

#include <limits>

#include "src/base/check.h"

namespace lockstep::cuda {
namespace {

/// The largest difference of two right results. Both are rounded to the type, at worst to
/// 2^-9 of each value. Sums of n random products differ by about sqrt(n) * 2^-24 with their order
/// (Higham and Mary, "A new approach to probabilistic rounding error analysis", 2019): 1e-3 for
/// n = 2^28. TF32 rounds each factor to 2^-11. A result with one wrong value in 10,000 is beyond.
constexpr double kTolerance = 1e-2;

}  // namespace

/// All plans against the result of one.
struct Race::Heat {
  std::size_t right = 0, winner = 0;
  std::vector<std::pair<std::size_t, double>> wrong;  ///< with their differences
  float best = std::numeric_limits<float>::infinity();
};

Race::Heat Race::heat(const Convolution& work, const Plans& plans, std::size_t reference) {
  Heat heat;
  for (std::size_t i = 0; i < plans.size() && !(heat.right > 0 && over()); ++i) {
    // The reference is first.
    const std::size_t index = i == 0 ? reference : i <= reference ? i - 1 : i;
    const Plan& plan = *plans[index];
    try {
      const double difference = track_->run(plan, heat.right == 0);
      if (difference <= kTolerance) {
        const float time = track_->time_of(plan, heat.best);
        if (time < heat.best) heat.best = time, heat.winner = index;
        ++heat.right;
      } else {
        heat.wrong.emplace_back(index, difference);
      }
    } catch (const Error& error) {
      try {
        track_->synchronize();
      } catch (const Error&) {
        fail("the kernel {} stops the GPU at {}: {}. Use --deterministic, which times no kernels.",
             plan.name(), work.text(), error.what());
      }
    }
  }
  return heat;
}

std::size_t Race::winner(const Convolution& work, const Plans& plans) {
  track_->prepare(work);
  // The first plan is the library's choice. It is wrong only if more plans agree on another result.
  Heat best = heat(work, plans, 0);
  for (std::size_t i = 1; i < plans.size() && best.wrong.size() > best.right; ++i) {
    Heat next = heat(work, plans, i);
    if (next.right > best.right) best = std::move(next);
  }
  require(best.right > 0, "all {} kernels for {} fail. Use another --precision.", plans.size(),
          work.text());
  for (const auto& [index, difference] : best.wrong) {
    const std::string& name = plans[index]->name();
    if (!wrong_.insert(name).second) continue;
    warnings_.push_back(
        fmt::format("the kernel {} is not used: its result for {} differs from that of {} by "
                    "{:.2g} of the norm",
                    name, work.text(), plans[best.winner]->name(), difference));
  }
  return best.winner;
}

}  // namespace lockstep::cuda
