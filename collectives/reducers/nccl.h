// The interface of the NCCL reducer (collectives/reducers/nccl.cc) to the library.
// collectives/reducers/cuda/nccl_library.cc calls NCCL, and the double of
// tests/support/nccl_double.h sums over MPI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/reducer.h"
#include "src/device/device.h"

namespace lockstep {

/// One non-blocking communicator: the work of a call is complete when settled(). Calls throw Error
/// with the library's text. One thread at a time. The destructor aborts unless finish() was called.
class NcclCommunicator {
 public:
  virtual ~NcclCommunicator() = default;
  /// Whether all work is complete, by ncclCommGetAsyncError. Never blocks. Throws errors of earlier
  /// work, also in streams.
  virtual bool settled() = 0;
  /// Memory of the device that NCCL sums fastest: ncclMemAlloc, zeroed and registered. The caller
  /// releases it before finish().
  virtual Memory allocate(std::size_t bytes) = 0;
  /// Enqueues the sum of `values` over the ranks, in place, in `stream`. All ranks call in one
  /// order.
  virtual void sum(float* values, std::int64_t count, Stream& stream) = 0;
  /// Starts to leave. All streams are idle, and no graph contains a sum.
  virtual void finish() = 0;
  /// Ends all work, also on streams. Blocks until no graph contains a sum, and until the device has
  /// done all other work. Only the release of memory and the destructor may follow. May run on
  /// another thread than the other calls.
  virtual void abort() noexcept = 0;
};

class NcclLibrary {
 public:
  virtual ~NcclLibrary() = default;
  /// By ncclGetVersion: 22809 is 2.28.9.
  virtual int version() = 0;
  /// The id that one rank passes to all ranks of a communicator: ncclGetUniqueId.
  virtual std::string unique_id() = 0;
  /// Starts to connect the ranks of spec.comm, on the device of `stream`. spec.deterministic: fixes
  /// the algorithm, the protocol and the number of CTAs.
  virtual std::unique_ptr<NcclCommunicator> connect(const std::string& id, const ReducerSpec& spec,
                                                    Stream& stream) = 0;
};

/// NCCL, in builds with CUDA.
NcclLibrary& nccl_library();

/// "2.28.9"
std::string nccl_version_name(int version);

/// Enqueues ncclSum in place in stream(), which can be captured. `library` outlives it. An error of
/// NCCL, or a call that takes longer than spec.timeout_seconds, throws Error. The caller then
/// destroys all graphs with sums, and calls abort() or destroys the reducer. Collective; throws the
/// same error on all ranks.
std::unique_ptr<Reducer> make_nccl_reducer(const ReducerSpec& spec, NcclLibrary& library);

// The choice between NCCL and a staged reducer for gradients in GPU memory. All ranks decide from
// the same data before they make anything, never from an error of one rank.

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
