// The sums are in double, so that the square of a large gradient does not overflow. Two launches
// suffice for any number of parameters, because the table of parts lies on the device.
#include "net/clip.h"

#include <algorithm>
#include <cmath>

#include "net/block_sums.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

/// sums[part] = the sum of the squares of g in its range.
struct SquareParts {
  const float* g;
  const Range* ranges;
  double* sums;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t part, Team team) const {
    const Range range = ranges[part];
    const float* const own = g + range.begin;
    const double sum = sum_of(
        team, range.count, [=](std::int64_t i) { return static_cast<double>(own[i]) * own[i]; });
    if (team.lane == 0) sums[part] = sum;
  }
};

struct Scale {
  const double* sums;
  std::int64_t parts;
  float limit;
  UpdateRates* now;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t, Team team) const {
    double squares = 0;
    for (std::int64_t i = team.lane; i < parts; i += team.lanes) squares += sums[i];
    squares = team.sum(squares);
    if (team.lane != 0) return;
    const double norm = std::sqrt(squares) * static_cast<double>(now->scale);
    // False for NaN, which therefore stays in the gradients and shows that the run diverges.
    if (norm > limit) now->scale *= static_cast<float>(limit / norm);
  }
};

/// A parameter has several parts if it is long, so that all threads have work.
std::vector<Range> parts_of(const Layout& layout, std::int64_t lanes) {
  std::vector<Range> parts;
  for (const Parameter& parameter : layout.parameters) {
    if (!parameter.stepped()) continue;
    const auto [begin, count] = parameter.range;
    const std::int64_t blocks = blocks_of(count, lanes);
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::int64_t first = count * block / blocks, end = count * (block + 1) / blocks;
      parts.push_back({begin + first, end - first});
    }
  }
  return parts;
}

}  // namespace

GradientClip::GradientClip(Device& device, const Layout& layout, float limit) : limit_(limit) {
  const std::vector<Range> parts = parts_of(layout, device.traits().lanes);
  parts_ = std::ssize(parts);
  for (const Range& part : parts) part_size_ = std::max(part_size_, part.count);
  const std::size_t bytes = parts.size() * sizeof(Range);
  ranges_ = device.allocate(bytes, Place::device);
  sums_ = device.allocate(parts.size() * sizeof(double), Place::device);
  const Memory host = device.allocate(bytes, Place::host);
  std::copy(parts.begin(), parts.end(), reinterpret_cast<Range*>(host.get()));
  const std::unique_ptr<Stream> stream = device.stream();
  device.copy(*stream, ranges_.get(), host.get(), bytes);
  stream->synchronize();
}

void GradientClip::enqueue(Stream& stream, const float* gradients, UpdateRates* now) const {
  auto* sums = reinterpret_cast<double*>(sums_.get());
  each_row(stream, parts_, part_size_,
           SquareParts{gradients, reinterpret_cast<const Range*>(ranges_.get()), sums});
  each_row(stream, 1, parts_, Scale{sums, parts_, limit_, now});
}

}  // namespace lockstep
