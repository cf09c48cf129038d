// The double of NCCL: its sums are work of a stream that meets the other ranks' over MPI, its calls
// are under way for a while after they return, and it can be told to fail as NCCL does.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "collectives/reducers/nccl.h"

namespace lockstep {

struct NcclPlan {
  int version = 22809;
  int looks = 3;              ///< settled() says no so often after each call
  bool connects = true;       ///< otherwise it is under way for ever
  bool refuses = false;       ///< to connect: settled() throws
  int sums_until_error = -1;  ///< the sum after these never ends, and settled() throws; none: -1
  int sums_until_refusal = -1;  ///< the call of sum() after these throws; none: -1
  double abort_seconds = 0;     ///< an abort takes so much longer
};

/// For a device whose work is done by threads of its own (tests/support/async_device.h). MPI must
/// grant MPI_THREAD_MULTIPLE. Sums in an order of MPI's. Collective to make.
///
/// As NCCL's, an abort ends only when no graph contains a sum, and when no sum of another
/// communicator is stuck: it frees memory, and so waits for the device. The double waits for seconds
/// and then fails the test.
class NcclDouble : public NcclLibrary {
 public:
  NcclDouble(const Comm& comm, Device& device, const NcclPlan& plan = {})
      : comm_(comm.duplicate()), device_(device), plan_(plan) {}

  int version() override { return plan_.version; }
  std::string unique_id() override;
  std::unique_ptr<NcclCommunicator> connect(const std::string& id, const ReducerSpec& spec,
                                            Stream& stream) override;

  /// What was called, in order: "connect", "allocate", "release", "finish", "abort", "destroy".
  const std::vector<std::string>& calls() const { return calls_; }
  /// The communicator exists. Its last owner may be the thread of an abort.
  bool alive() const { return alive_; }
  /// What connect() was asked for.
  bool deterministic = false;
  int max_ctas = -1;

 private:
  class Communicator;

  Comm comm_;
  Device& device_;
  NcclPlan plan_;
  std::vector<std::string> calls_;
  std::atomic<bool> alive_ = false;
};

}  // namespace lockstep
