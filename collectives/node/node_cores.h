// The cores of a node, and the share of each rank.
#pragma once

#include "collectives/comm/comm.h"

namespace lockstep {

/// The cores of all ranks of a node, and the share of this rank.
struct NodeCores {
  double all = 1;    ///< distinct cores, or the quota of processor time (cgroup) if that is less
  double share = 1;  ///< sum over this rank's cores of 1 / ranks that may use the core
};

/// Collective over `node`, the ranks of one host.
NodeCores node_cores(const Comm& node);

/// The cores of one rank, and the same computed from those of all ranks. `mine`: index of a rank.
struct RankCores {
  std::vector<int> cores;  ///< numbers of the cores on which it may run
  double quota = 0;        ///< in cores; infinity: none
};
NodeCores share_out(const std::vector<RankCores>& ranks, std::size_t mine);

}  // namespace lockstep
