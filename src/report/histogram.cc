// Histograms in one pass. The upper 12 bits of a float (sign, exponent, 3 bits of mantissa) are the
// number of its bucket: eight equal parts of every octave, without a logarithm or a search.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>

#include "src/report/report.h"

namespace lockstep {
namespace {

constexpr int kShift = 20;                      // bits of the float that its bucket ignores
constexpr int kHalf = 1 << (31 - kShift);       // buckets of one sign
constexpr int kFinite = 0xFF << (23 - kShift);  // from here on a bucket holds infinities and NaNs
constexpr std::uint32_t kInfinity = 0x7F800000;
constexpr std::size_t kLanes =
    16;  // independent sums, so that they are vectors and no chain of additions
constexpr std::size_t kBlock = 2048;  // values, a multiple of kLanes: 8 KiB

/// The smallest magnitude of bucket `i` of either sign; for the first infinite bucket, the largest
/// finite magnitude.
double edge(int i) {
  if (i >= kFinite) return std::numeric_limits<float>::max();
  return std::bit_cast<float>(static_cast<std::uint32_t>(i) << kShift);
}

struct Sums {
  std::array<double, kLanes> sum{}, sum_squares{};
  std::array<float, kLanes> min, max;
  std::array<std::uint64_t, 2 * kHalf> counts{};

  Sums() {
    min.fill(std::numeric_limits<float>::infinity());
    max.fill(-std::numeric_limits<float>::infinity());
  }

  /// `count`: a multiple of kLanes, small enough that the second loop finds the values in the
  /// nearest cache. One loop would be five times slower (measured): the counters' scattered stores
  /// hold up the sums.
  void add(const float* values, std::size_t count) {
    for (std::size_t i = 0; i < count; i += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        const bool finite =
            (std::bit_cast<std::uint32_t>(values[i + lane]) & kInfinity) != kInfinity;
        const float value = finite ? values[i + lane] : 0.0f;
        sum[lane] += value;
        sum_squares[lane] += static_cast<double>(value) * value;
        min[lane] = finite && value < min[lane] ? value : min[lane];
        max[lane] = finite && value > max[lane] ? value : max[lane];
      }
    }
    for (std::size_t i = 0; i < count; ++i)
      ++counts[std::bit_cast<std::uint32_t>(values[i]) >> kShift];
  }
};

}  // namespace

Histogram histogram(std::span<const float> values) {
  Sums sums;
  const std::size_t whole = values.size() / kLanes * kLanes;
  for (std::size_t i = 0; i < whole; i += kBlock)
    sums.add(values.data() + i, std::min(kBlock, whole - i));
  std::array<float, kLanes> last;
  last.fill(std::numeric_limits<float>::quiet_NaN());  // counts for nothing
  std::copy(values.begin() + static_cast<std::ptrdiff_t>(whole), values.end(), last.begin());
  sums.add(last.data(), kLanes);

  Histogram result;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    result.sum += sums.sum[lane];
    result.sum_squares += sums.sum_squares[lane];
  }
  // Buckets arrive in ascending order: negative ones from the largest magnitude down, then positive
  // ones. A run of empty buckets only moves the edge of the last one.
  const auto add = [&](int bucket, double right) {
    const std::uint64_t count = sums.counts[bucket];
    const bool after_empty = result.counts.empty() || result.counts.back() == 0;
    if (count > 0 || !after_empty) {
      result.limits.push_back(right);
      result.counts.push_back(static_cast<double>(count));
      result.count += static_cast<double>(count);
    } else if (!result.counts.empty()) {
      result.limits.back() = right;
    }
  };
  for (int k = kFinite - 1; k >= 0; --k) add(kHalf + k, 0.0 - edge(k));
  for (int k = 0; k < kFinite; ++k) add(k, edge(k + 1));
  if (!result.counts.empty() && result.counts.back() == 0) {
    result.counts.pop_back();
    result.limits.pop_back();
  }
  if (result.count > 0) {
    result.min = std::ranges::min(sums.min);
    result.max = std::ranges::max(sums.max);
  }
  return result;
}

}  // namespace lockstep
