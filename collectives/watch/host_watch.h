// HostWatch: processors, memory and network of each host over time. It sends nothing of its own:
// ranks add their numbers to a message that they exchange anyway.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/comm/comm.h"
#include "src/base/usage.h"

namespace lockstep {

/// Means over the time since the last report.
struct HostUse {
  double cores = 0;     ///< processors that the ranks of the host kept busy
  double bytes = 0;     ///< their memory, now; each rank counts pages that it shares
  double received = 0;  ///< bytes per second, by all programs of the host
  double sent = 0;      ///< the same
};

/// One rank's use so far. Sent through MPI as bytes.
struct RankUse {
  std::int64_t host = 0;  ///< the first rank of its host
  Usage usage = {};
};

/// The hosts in the order of their first ranks, from the numbers of all ranks at two times.
std::vector<HostUse> host_use(std::span<const RankUse> before, std::span<const RankUse> now);

/// One thread.
class HostWatch {
 public:
  explicit HostWatch(const Comm& comm);  ///< collective

  RankUse own();  ///< this rank's numbers, at most 5 s old; local
  /// host_use() since the last result; empty within 10 s of it. `all`: the numbers of all ranks, in
  /// their order. Local.
  std::vector<HostUse> hosts(const std::vector<RankUse>& all);

 private:
  std::int64_t host_ = 0;      ///< the first rank of this rank's host
  Usage usage_ = usage_now();  ///< of this rank
  std::vector<RankUse> last_;  ///< of the last result; empty: there was none
};

}  // namespace lockstep
