#include "collectives/watch/host_watch.h"

#include <algorithm>
#include <map>

#include "src/base/clock.h"

namespace lockstep {

std::vector<HostUse> host_use(std::span<const RankUse> before, std::span<const RankUse> now) {
  std::map<std::int64_t, HostUse> by_host;
  for (std::int64_t rank = 0; rank < std::ssize(now); ++rank) {
    const Usage &old = before[rank].usage, &use = now[rank].usage;
    const auto since = [&](std::int64_t Usage::*counter) {  // which may begin anew
      return static_cast<double>(std::max<std::int64_t>(use.*counter - old.*counter, 0));
    };
    const double ns = std::max(1.0, since(&Usage::at_ns));
    HostUse& host = by_host[now[rank].host];
    host.cores += since(&Usage::cpu_ns) / ns;
    host.bytes += static_cast<double>(use.bytes);
    if (now[rank].host != rank) continue;  // the ranks of a host see the same interfaces
    host.received = since(&Usage::received) / ns * 1e9;
    host.sent = since(&Usage::sent) / ns * 1e9;
  }
  std::vector<HostUse> result;
  for (const auto& [first, use] : by_host) result.push_back(use);
  return result;
}

HostWatch::HostWatch(const Comm& comm) : host_(comm.rank()) {
  comm.node().broadcast(std::span(&host_, 1));
}

RankUse HostWatch::own() {
  constexpr std::int64_t kOldest = 5'000'000'000;  // ns
  if (now_ns() - usage_.at_ns > kOldest) usage_ = usage_now();
  return {host_, usage_};
}

std::vector<HostUse> HostWatch::hosts(const std::vector<RankUse>& all) {
  constexpr std::int64_t kEvery = 10'000'000'000;  // ns
  if (last_.empty()) last_ = all;
  if (all.front().usage.at_ns - last_.front().usage.at_ns < kEvery) return {};
  std::vector<HostUse> result = host_use(last_, all);
  last_ = all;
  return result;
}

}  // namespace lockstep
