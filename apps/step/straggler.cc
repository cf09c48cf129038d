#include "apps/step/straggler.h"

#include <algorithm>
#include <array>
#include <utility>

#include "src/base/machine.h"

namespace lockstep {

std::optional<Straggler> find_straggler(std::span<const std::uint64_t> exposed_ns, double seconds) {
  if (exposed_ns.size() < 2) return std::nullopt;
  const auto last = std::min_element(exposed_ns.begin(), exposed_ns.end());
  std::vector<std::uint64_t> sorted(exposed_ns.begin(), exposed_ns.end());
  std::partial_sort(sorted.begin(), sorted.begin() + 2, sorted.end());
  constexpr double kLeast = 0.1;  // a smaller share is noise: ranks are never quite alike
  const double late = static_cast<double>(sorted[1] - sorted[0]) * 1e-9;
  if (late < kLeast * seconds) return std::nullopt;
  return Straggler{.rank = static_cast<int>(last - exposed_ns.begin()), .seconds = late};
}

std::optional<Straggler> StragglerWatch::find(std::int64_t done, double exposed, double trained) {
  constexpr std::int64_t kSteps = 10;
  hosts_.clear();
  if (comm_.size() == 1) {
    hosts_ = host_watch_.hosts({host_watch_.own()});
    return std::nullopt;
  }
  const std::int64_t steps = done - last_.step;
  if (last_.trained > 0 && steps < kSteps) return std::nullopt;
  const Times before = std::exchange(last_, {done, exposed, trained});
  if (before.trained == 0) return std::nullopt;  // the first step of a start is like no other
  const RankUse use = host_watch_.own();
  const std::array own{static_cast<std::uint64_t>((exposed - before.exposed) * 1e9),
                       use.host,
                       use.at_ns,
                       use.cpu_ns,
                       use.bytes,
                       use.received,
                       use.sent};
  const std::vector<std::uint64_t> all = comm_.all_gather(own);
  std::vector<std::uint64_t> exposed_ns;
  std::vector<RankUse> uses;
  for (std::size_t i = 0; i < all.size(); i += own.size()) {
    exposed_ns.push_back(all[i]);
    uses.push_back({all[i + 1], all[i + 2], all[i + 3], all[i + 4], all[i + 5], all[i + 6]});
  }
  hosts_ = host_watch_.hosts(uses);
  auto late = find_straggler(exposed_ns, trained - before.trained);
  // Ranks have different clocks and seconds: rank 0 decides.
  std::int64_t rank = late ? late->rank : -1;
  comm_.broadcast(std::span(&rank, 1));
  if (rank < 0) return std::nullopt;
  const std::string host = comm_.broadcast(host_name(), static_cast<int>(rank));
  if (late) late->host = host, late->steps = steps;
  return late;
}

bool StragglerLines::shows(const Straggler& late, double now) {
  auto& [since, delay] = ranks_[late.rank];
  delay += late.seconds;
  if ((since > 0 && now - since < 60) || delay <= 0.05 * (now - since)) return false;
  since = now;
  delay = 0;
  return true;
}

}  // namespace lockstep
