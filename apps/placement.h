// Where the ranks are: hosts, cores, threads.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/comm.h"
#include "src/devices.h"

namespace lockstep {

struct Placement {
  int threads = 1;  ///< that this rank should use
  int hosts = 1;    ///< of the whole run
  /// Where the ranks' cores or threads look like a mistake; the same on all ranks, else empty.
  std::string warning;
};

/// Collective. `asked` threads, or with 0 this rank's share of the cores that it may use: each core
/// counts once, divided by the ranks of the node that may use it too, within the quota of the
/// control groups (collectives/node_cores.h).
Placement place(const Comm& comm, int asked);

/// Collective. The device called `name` (src/devices.h); for "auto" the best kind that every rank
/// has, so that all use the same. Throws AgreedError where a rank has none.
std::unique_ptr<Device> make_device(const Comm& comm, std::string_view name, DeviceOptions options);

/// Collective. On rank 0 one line per rank: "rank 1: host b, cores 2-3, 2 threads"; elsewhere
/// nothing.
std::vector<std::string> placement_lines(const Comm& comm, const Placement& placement);

}  // namespace lockstep
