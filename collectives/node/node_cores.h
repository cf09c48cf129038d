// The cores of a node, shared out among its ranks.
#pragma once

#include "collectives/comm/comm.h"

namespace lockstep {

/// What all ranks of a node may use together, and this rank's part of it.
struct NodeCores {
  double all = 1;    ///< distinct cores, or fewer where a quota of processor time (cgroup) says so
  double share = 1;  ///< of this rank: each core counts once, divided by the ranks that may use it
};

/// Collective over `node`, the ranks of one host.
NodeCores node_cores(const Comm& node);

/// The same from what the ranks of a node say; `mine` is one of them.
struct RankCores {
  std::vector<int> cores;  ///< that it may run on
  double quota = 0;        ///< cores' time; infinity without a limit
};
NodeCores share_out(const std::vector<RankCores>& ranks, std::size_t mine);

}  // namespace lockstep
