// Where the ranks are: hosts, cores, threads.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/step/summary_lines.h"
#include "collectives/comm/comm.h"
#include "src/device/devices.h"

namespace lockstep {

struct Placement {
  int threads = 1;  ///< that this rank should use
  int hosts = 1;    ///< of the whole run
  /// Where the ranks' cores or threads look like a mistake; the same on all ranks, else empty.
  std::string warning;
  /// On rank 0, for make_device() to fill: which rank has which GPU, empty without GPUs.
  std::string devices;
  std::vector<std::string> notes;  ///< why no better device was taken, who shares one
};

/// Collective. `asked` threads, or with 0 this rank's share of the cores that it may use: each core
/// counts once, divided by the ranks of the node that may use it too, within the quota of the
/// control groups (collectives/node/node_cores.h).
Placement place(const Comm& comm, int asked);

/// Where one rank computes.
struct RankDevice {
  std::string host;
  std::string name;  ///< "cuda:1": its number among those that this rank may use
  std::string uuid;  ///< DeviceTraits::uuid
};

/// Of the devices of all ranks, in rank order: "rank 0: a cuda:0 (GPU-1b6c7f12), ...", the first
/// eight of them; empty where they are cores.
std::string devices_text(const std::vector<RankDevice>& ranks);

/// Who shares a GPU with whom: "4 ranks share 1 GPU (ranks 0, 1, 2, 3 on a cuda:0): ...". Empty
/// where each rank has its own.
std::string sharing_note(const std::vector<RankDevice>& ranks);

/// Collective. The device called `name` (src/device/devices.h); for "auto" the best kind that every
/// rank has, so that all use the same. Throws AgreedError where a rank has none. Fills
/// `placement`.devices and .notes; its threads are the device's.
std::unique_ptr<Device> make_device(const Comm& comm, std::string_view name, DeviceOptions options,
                                    Placement& placement);

/// Describes rank 0, on a device of these `traits`, in a run of so many ranks.
void describe(const Placement& placement, const DeviceTraits& traits, int ranks,
              SummaryLines& lines);

/// Collective. On rank 0 one line per rank: "rank 1: host b, cores 2-3, 2 threads"; elsewhere
/// nothing.
std::vector<std::string> placement_lines(const Comm& comm, const Placement& placement);

}  // namespace lockstep
