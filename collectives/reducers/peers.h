// What devices of one host see of each other's ranks, so that the reducer cuda_ipc
// (collectives/reducers/peer_reducer.cc) is one thing and CUDA another:
// collectives/reducers/cuda/cuda_peers.cc is CUDA itself, tests/support/peers_double.h does the
// same for processes of the host.
#pragma once

#include <functional>
#include <memory>

#include "collectives/reducer.h"

namespace lockstep {

/// The gradients of all ranks, in memory of their devices, and marks in their streams. One thread
/// at a time, but for record() of different marks. Where CUDA fails throws Error. All streams that
/// were given anything here are idle when it is destroyed, which is collective, but not while an
/// exception unwinds.
class Peers {
 public:
  virtual ~Peers() = default;
  /// Of rank `rank` as this rank's device finds them: zeroed, 4096-aligned.
  virtual float* gradients(int rank) = 0;
  /// As Event::record: this rank's mark number `mark`.
  virtual void record(int mark, Stream& stream) = 0;
  /// As Event::wait: for the record() of mark `mark` that `rank` has called last *by now*. Whether
  /// it has called that of this step is for the caller to know: one that was not called is not
  /// waited for.
  virtual void wait(int rank, int mark, Stream& stream) = 0;
};

/// Makes those of `spec`, with marks 0 .. marks-1. Collective; fails on all ranks alike.
using MakePeers = std::function<std::unique_ptr<Peers>(const ReducerSpec& spec, int marks)>;

/// Those of CUDA, in builds with it. Collective; fails on all ranks alike.
std::unique_ptr<Peers> make_cuda_peers(const ReducerSpec& spec, int marks);
/// Whether that can be done with `device`.
bool shares_memory(Device& device);

/// The reducer cuda_ipc, for at most kMostPeers ranks of one host. Collective; fails on all ranks
/// alike.
std::unique_ptr<Reducer> make_peer_reducer(const ReducerSpec& spec, const MakePeers& make_peers);
inline constexpr int kMostPeers = 8;

}  // namespace lockstep
