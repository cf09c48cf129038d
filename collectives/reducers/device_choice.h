// Which reducer sums gradients in memory of devices, by what all ranks say of themselves: decided
// before anything is made, alike on all ranks, and never from an error of one of them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/comm/comm.h"
#include "src/device/device.h"

namespace lockstep {

/// The device of one rank.
struct RankGpu {
  std::string host;
  std::string uuid;  ///< DeviceTraits::uuid; empty: no CUDA device
  int nccl = 0;      ///< version, as of NcclLibrary::version(); 0: the build has none
  bool ipc = false;  ///< its memory and events can be those of other processes, too
};

/// Those of all ranks, in rank order. Collective.
std::vector<RankGpu> gather_gpus(const Comm& comm, const RankGpu& own);

/// Why ranks like `gpus` cannot use the reducer `name` ("nccl", "cuda_ipc"), with the cure;
/// empty if they can.
std::string refusal(std::string_view name, std::span<const RankGpu> gpus);

struct DeviceChoice {
  /// "nccl", "cuda_ipc"; "auto": a reducer of the host, staged.
  std::string_view reducer;
  std::string why;  ///< after "chosen because"
};

/// nccl if each rank has a device of its own, cuda_ipc on one host, else staging; `canonical`: of
/// those that add in the canonical order.
DeviceChoice choose(std::span<const RankGpu> gpus, bool canonical);

}  // namespace lockstep
