// Placement: the hosts, cores, threads and devices of the ranks.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/comm/comm.h"
#include "src/device/devices.h"

namespace lockstep {

struct Placement {
  int threads = 1;  ///< that this rank should use
  int hosts = 1;    ///< of the whole run
  /// Empty unless the ranks' cores or threads look like a mistake; the same on all ranks.
  std::string warning;
  /// Set by make_device() on rank 0: which rank has which GPU; empty without GPUs.
  std::string devices;
  std::vector<std::string> notes;  ///< why "auto" chose no better device, which ranks share one
};

/// Collective. `asked`: threads; 0: this rank's share of the cores that it may use. Each core
/// counts once, divided by the ranks of the node that may use it too, within the quota of the
/// control groups (collectives/node/node_cores.h).
Placement place(const Comm& comm, int asked);

/// The device of one rank.
struct RankDevice {
  std::string name;  ///< "a cuda:1": its host, and its number among those that this rank may use
  std::string uuid;  ///< DeviceTraits::uuid
};

/// The devices of all ranks, in rank order: "rank 0: a cuda:0 (GPU-1b6c7f12), ...", at most eight
/// of them. Empty if they are cores.
std::string devices_text(const std::vector<RankDevice>& ranks);

/// "4 ranks share 1 GPU (ranks 0, 1, 2, 3 on a cuda:0)..." Empty if each rank has its own.
std::string sharing_note(const std::vector<RankDevice>& ranks);

/// Collective. The device called `name` (src/device/devices.h); "auto": the best kind that every
/// rank has, so that all use the same. Throws AgreedError if a rank has none. Sets
/// `placement`.devices and .notes, and uses its threads.
std::unique_ptr<Device> make_device(const Comm& comm, std::string_view name, DeviceOptions options,
                                    Placement& placement);

/// Collective. On rank 0 one line per rank: "rank 1: host b, cores 2-3, 2 threads"; on other ranks
/// none.
std::vector<std::string> placement_lines(const Comm& comm, const Placement& placement);

}  // namespace lockstep
