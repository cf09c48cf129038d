#include "apps/step/straggler.h"

#include <algorithm>

namespace lockstep {

std::optional<Straggler> find_straggler(std::span<const std::uint64_t> waited_ns, double seconds) {
  if (waited_ns.size() < 2) return std::nullopt;
  const auto last = std::min_element(waited_ns.begin(), waited_ns.end());
  std::uint64_t next = UINT64_MAX;
  for (auto other = waited_ns.begin(); other != waited_ns.end(); ++other) {
    if (other != last) next = std::min(next, *other);
  }
  const double late = static_cast<double>(next - *last) * 1e-9;
  if (late < kStragglerShare * seconds) return std::nullopt;
  return Straggler{.rank = static_cast<int>(last - waited_ns.begin()), .seconds = late};
}

}  // namespace lockstep
