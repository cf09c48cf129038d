// A communicator of the stand-in of NCCL (nccl.cc): its states, and the rules of its calls.
#pragma once

#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/emulator/libraries/shared_sum.h"

/// NCCL's type. It outlives its use, so that a late use is noticed.
struct ncclComm {
  enum class Phase { connecting, open, finalizing, finalized, destroyed, aborted };
  struct Registration {
    const void* data;
  };

  /// ncclSuccess: `call` may use the communicator.
  static ncclResult_t admit(ncclComm* comm, const std::string& call);
  /// Adds a communicator to those of this process.
  static ncclComm* add(std::unique_ptr<ncclComm> comm);
  /// Whether any communicator of this process has registered this memory.
  static bool is_registered(const void* data);

  /// A call that settles after a few looks; `done` runs then, and may be null.
  ncclResult_t settle_later(std::function<void()> done);
  /// The state that ncclCommGetAsyncError reports.
  ncclResult_t look();
  /// The next part of a sum: see emulator::enqueue.
  bool advance(const float* from, float* to, std::size_t count);
  void wait_for_graphs(const std::string& call) const;
  void abort();

  ncclResult_t register_memory(void* data, std::size_t bytes, void** handle,
                               const std::string& call);
  ncclResult_t deregister(const void* handle, const std::string& call);

  int size = 0;
  std::string name;  ///< of its work
  emulator::SharedSum ranks;
  void* place = nullptr;  ///< memory that each sum writes: sums without order are races
  std::atomic<Phase> phase = Phase::connecting;

 private:
  ncclResult_t connect();

  bool settled_ = false;
  int looks_ = 3;  ///< before the call settles
  std::function<void()> done_;
  ncclResult_t error_ = ncclSuccess;
  std::vector<std::unique_ptr<Registration>> registrations_;
  std::atomic<bool> aborted_ = false, begun_ = false, failed_ = false;
};

namespace emulator {

/// The text that ncclGetLastError returns to this thread.
extern thread_local std::string last_error;
/// Returns `result`, after it has set the text of the error.
ncclResult_t fail(ncclResult_t result, const std::string& text);
/// The same, and reports a broken rule.
ncclResult_t refuse(ncclResult_t result, const std::string& rule, const std::string& detail = "");
/// Whether all of `bytes` > 0 are the device's.
bool is_of_device(const void* data, std::size_t bytes);

}  // namespace emulator
