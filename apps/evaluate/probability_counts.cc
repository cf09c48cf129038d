#include "apps/evaluate/probability_counts.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace lockstep {
namespace {

constexpr int kBitsLeftOut = 17;  // of a float's mantissa: 6 of 23 bits remain
constexpr int cell_of(float p) {
  return static_cast<int>(std::bit_cast<std::uint32_t>(p) >> kBitsLeftOut);
}
constexpr int kFirst = cell_of(0x1p-32f) - 1, kHalf = cell_of(0.5f) - kFirst + 1;
static_assert(2 * kHalf == ProbabilityCounts::kBins);

}  // namespace

int ProbabilityCounts::bin_of(double p) {
  const auto lower = [](double share) {
    return std::max(cell_of(static_cast<float>(share)) - kFirst, 0);
  };
  return p <= 0.5 ? lower(p) : kBins - 1 - lower(1 - p);
}

void ProbabilityCounts::add(std::span<const double> probabilities, std::int32_t label) {
  for (const double p : probabilities)
    if (std::isnan(p)) return;
  for (std::size_t c = 0; c < probabilities.size(); ++c) {
    const bool right = static_cast<std::int32_t>(c) == label;
    ++counts_[(c * kBins + bin_of(probabilities[c])) * 2 + right];
  }
}

double ProbabilityCounts::auc(int label) const {
  double pairs = 0, right = 0, wrong = 0;
  for (int bin = 0; bin < kBins; ++bin) {
    const auto own = static_cast<double>(count(label, bin, true)),
               other = static_cast<double>(count(label, bin, false));
    pairs += own * (wrong + other / 2);
    right += own;
    wrong += other;
  }
  if (right == 0 || wrong == 0) return std::numeric_limits<double>::quiet_NaN();
  return pairs / (right * wrong);
}

std::vector<CurvePoint> ProbabilityCounts::curve(int label, int most) const {
  std::int64_t right = 0;
  for (int bin = 0; bin < kBins; ++bin) right += count(label, bin, true);
  std::vector<CurvePoint> points;
  CurvePoint now;
  std::int64_t part = 0;  // a point for each equal part of the recall
  for (int bin = kBins - 1; bin >= 0; --bin) {
    now.right += count(label, bin, true);
    now.wrong += count(label, bin, false);
    const std::int64_t reached = right > 0 ? now.right * (most - 1) / right : 0;
    if (reached > part) points.push_back(now);
    part = reached;
  }
  if (points.empty() || points.back().right + points.back().wrong < now.right + now.wrong)
    points.push_back(now);
  return points;
}

}  // namespace lockstep
