// The reducers of CUDA devices, for the menu in collectives/reducers/reducers.cc. Free of CUDA's
// headers.
#pragma once

#include <memory>

#include "collectives/reducers/nccl.h"
#include "collectives/reducers/peers.h"

namespace lockstep {

/// NCCL itself.
NcclLibrary& nccl_library();

/// Memory and events of `spec.device` that the processes of one host share. Collective; fails on
/// all ranks alike.
std::unique_ptr<Peers> make_cuda_peers(const ReducerSpec& spec, int marks);
/// Whether that can be done with `device`.
bool shares_memory(Device& device);

}  // namespace lockstep
