#include "apps/step/straggler.h"

#include <algorithm>
#include <utility>

#include "src/base/machine.h"

namespace lockstep {

std::optional<Straggler> find_straggler(std::span<const double> exposed, double seconds) {
  if (exposed.size() < 2) return std::nullopt;
  const auto last = std::ranges::min_element(exposed);
  std::vector<double> sorted(exposed.begin(), exposed.end());
  std::partial_sort(sorted.begin(), sorted.begin() + 2, sorted.end());
  constexpr double kLeast = 0.1;  // a smaller share is noise: ranks are never quite alike
  // The last rank waits least. The next one has waited for it that much longer.
  const double late = sorted[1] - sorted[0];
  if (late < kLeast * seconds) return std::nullopt;
  return Straggler{.rank = static_cast<int>(last - exposed.begin()), .seconds = late};
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
  // Each rank counts the same steps, so all reach this message together.
  struct OfRank {
    double exposed;
    RankUse use;
  };
  const OfRank own{exposed - before.exposed, host_watch_.own()};
  std::vector<double> waits;
  std::vector<RankUse> uses;
  for (const OfRank& rank : comm_.of_all(own)) {
    waits.push_back(rank.exposed);
    uses.push_back(rank.use);
  }
  hosts_ = host_watch_.hosts(uses);
  auto late = find_straggler(waits, trained - before.trained);
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
