#include "collectives/watch/host_watch.h"

#include <algorithm>
#include <map>

#include "src/base/clock.h"

namespace lockstep {

std::vector<HostUse> host_use(std::span<const RankUse> before, std::span<const RankUse> now) {
  std::map<std::uint64_t, HostUse> by_host;
  for (std::size_t rank = 0; rank < now.size(); ++rank) {
    const RankUse &old = before[rank], &use = now[rank];
    const auto since = [](std::uint64_t last, std::uint64_t value) {  // a counter may begin anew
      return value > last ? static_cast<double>(value - last) : 0;
    };
    const double ns = std::max(1.0, since(old.at_ns, use.at_ns));
    HostUse& host = by_host[use.host];
    host.cores += since(old.cpu_ns, use.cpu_ns) / ns;
    host.bytes += static_cast<double>(use.bytes);
    if (use.host != rank) continue;  // the ranks of a host see the same interfaces
    host.received = since(old.received, use.received) / ns * 1e9;
    host.sent = since(old.sent, use.sent) / ns * 1e9;
  }
  std::vector<HostUse> result;
  for (const auto& [first, use] : by_host) result.push_back(use);
  return result;
}

HostWatch::HostWatch(const Comm& comm) {
  std::int64_t first = comm.rank();
  comm.node().broadcast(std::span(&first, 1));
  host_ = static_cast<std::uint64_t>(first);
}

RankUse HostWatch::own() {
  constexpr std::int64_t kOldest = 5'000'000'000;  // ns
  if (now_ns() - usage_.at_ns > kOldest) usage_ = usage_now();
  const auto number = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  return {.host = host_,
          .at_ns = number(usage_.at_ns),
          .cpu_ns = number(usage_.cpu_ns),
          .bytes = number(usage_.bytes),
          .received = number(usage_.received),
          .sent = number(usage_.sent)};
}

std::vector<HostUse> HostWatch::hosts(const std::vector<RankUse>& all) {
  constexpr std::uint64_t kEvery = 10'000'000'000;  // ns
  if (last_.empty()) last_ = all;
  if (all.front().at_ns - last_.front().at_ns < kEvery) return {};
  std::vector<HostUse> result = host_use(last_, all);
  last_ = all;
  return result;
}

}  // namespace lockstep
