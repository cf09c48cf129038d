// The choice between NCCL and a staged reducer for gradients in GPU memory. All ranks decide from
// the same data before they make anything, never from an error of one rank.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "collectives/comm/comm.h"

namespace lockstep {

/// The GPU of one rank.
struct RankGpu {
  std::string host;
  std::string uuid;      ///< DeviceTraits::uuid; empty: no CUDA device
  int nccl = 0;          ///< NcclLibrary::version(); 0: the build contains no NCCL
  std::string pci = {};  ///< DeviceTraits::pci
};

/// Those of all ranks, in rank order. Collective.
std::vector<RankGpu> gather_gpus(const Comm& comm, const RankGpu& own);

/// Why ranks like `gpus` cannot use NCCL; empty if they can. `canonical`: the sums must have the
/// canonical order.
std::string nccl_refusal(std::span<const RankGpu> gpus, bool canonical);

}  // namespace lockstep
