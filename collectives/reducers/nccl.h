// NCCL as the reducer needs it, so that the reducer (collectives/reducers/nccl.cc) is one thing and
// the library another: collectives/reducers/cuda/nccl_library.cc is NCCL itself,
// tests/support/nccl_double.h sums over MPI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "collectives/reducer.h"
#include "src/device/device.h"

namespace lockstep {

/// One communicator, non-blocking: what a call begins is through when settled(). Calls throw Error
/// with the library's words. One thread at a time. Where finish() was not called before, its
/// destructor aborts.
class NcclCommunicator {
 public:
  virtual ~NcclCommunicator() = default;
  /// Whether all that was begun is through, by ncclCommGetAsyncError. Never blocks; throws what the
  /// library has met since, in the work of its streams too.
  virtual bool settled() = 0;
  /// Memory of the device that NCCL sums fastest: ncclMemAlloc, zeroed and registered. To be
  /// released before finish().
  virtual Memory allocate(std::size_t bytes) = 0;
  /// Gives the sum of `values` over the ranks, in place, to `stream`. All ranks call in one order.
  virtual void sum(float* values, std::int64_t count, Stream& stream) = 0;
  /// Begins to leave: all streams are idle, no graph holds a sum any more.
  virtual void finish() = 0;
  /// Ends what is under way, on streams too. Nothing but the release of memory and the destructor
  /// may follow.
  virtual void abort() noexcept = 0;
};

class NcclLibrary {
 public:
  virtual ~NcclLibrary() = default;
  /// As ncclGetVersion says: 22809 is 2.28.9.
  virtual int version() = 0;
  /// What all ranks of one communicator are given, from one of them: ncclGetUniqueId.
  virtual std::string unique_id() = 0;
  /// Begins to connect the ranks of spec.comm, on the device of `stream`. spec.deterministic: with
  /// one algorithm, one protocol and one number of CTAs.
  virtual std::unique_ptr<NcclCommunicator> connect(const std::string& id, const ReducerSpec& spec,
                                                    Stream& stream) = 0;
};

/// NCCL itself, in builds with CUDA.
NcclLibrary& nccl_library();

/// "2.28.9"
std::string nccl_version_name(int version);

/// ncclSum in place on stream(), which is done by being given: it can be captured. Collective;
/// fails on all ranks alike. `library` outlives it. Where NCCL reports an error the sums are
/// aborted and Error is thrown; where a call takes longer than spec.timeout_seconds too.
std::unique_ptr<Reducer> make_nccl_reducer(const ReducerSpec& spec, NcclLibrary& library);

}  // namespace lockstep
