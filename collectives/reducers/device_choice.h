// The choice of the reducer for gradients in GPU memory. All ranks decide from the same data before
// they make anything, never from an error of one rank.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "collectives/comm/comm.h"

namespace lockstep {

/// The GPU of one rank.
struct RankGpu {
  std::string host;
  std::string uuid;  ///< DeviceTraits::uuid; empty: no CUDA device
  int nccl = 0;      ///< NcclLibrary::version(); 0: the build contains no NCCL
};

/// Those of all ranks, in rank order. Collective.
std::vector<RankGpu> gather_gpus(const Comm& comm, const RankGpu& own);

/// Why ranks like `gpus` cannot use NCCL; empty if they can.
std::string nccl_refusal(std::span<const RankGpu> gpus);

struct DeviceChoice {
  bool nccl = false;  ///< false: a reducer of the host, staged
  std::string why;    ///< follows "chosen because"
};

/// NCCL if each rank has its own GPU and may add in any order, else a staged reducer.
DeviceChoice choose(std::span<const RankGpu> gpus, bool canonical);

}  // namespace lockstep
