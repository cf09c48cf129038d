// A stand-in for NCCL: all-reduce of fp32 between processes of one host, as work of a stream. Each
// call may still be under way when it returns, as in a communicator that does not block, and the
// work is enqueued only when ncclCommGetAsyncError has returned success. Rules of the manual that a
// program breaks are reported, and the call is refused.
//
//   EMULATOR_NCCL_FAIL   "3": the third sum of this process never ends, and the communicator
//   reports
//                        ncclRemoteError. A rank that dies is not noticed, as over NVLink.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/emulator/emulator.h"
#include "tests/emulator/libraries/communicator.h"

namespace {

using emulator::is_of_device, emulator::is_to_fail, emulator::refuse;
using Phase = ncclComm::Phase;

/// Passes the communicator to `run`, unless a rule forbids the call.
template <class Run>
ncclResult_t call(ncclComm_t comm, const char* name, Run run) {
  const ncclResult_t result = ncclComm::admit(comm, name);
  return result == ncclSuccess ? run(*comm) : result;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  const char* const names[] = {"no error",
                               "unhandled CUDA error",
                               "unhandled system error",
                               "internal error",
                               "invalid argument",
                               "invalid usage",
                               "remote process exited or there was a network error",
                               "operation in progress"};
  return result >= 0 && result < ncclNumResults ? names[result] : "unknown result";
}

const char* ncclGetLastError(ncclComm_t) { return emulator::last_error.c_str(); }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (is_to_fail("ncclGetUniqueId"))
    return emulator::fail(ncclSystemError, "ncclGetUniqueId is to fail");
  const std::string text = emulator::SharedSum::create();
  if (text.empty()) return emulator::fail(ncclSystemError, "no shared memory");
  *id = {};
  text.copy(id->internal, sizeof id->internal - 1);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* to, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  *to = nullptr;
  if (is_to_fail("ncclCommInitRankConfig")) return ncclSystemError;
  if (config == nullptr || config->magic != 0xcafebeef || config->blocking != 0)
    return refuse(ncclInvalidArgument, "ncclCommInitRankConfig: the stand-in never blocks");
  if (rank < 0 || rank >= size || size > emulator::SharedSum::kMostRanks)
    return refuse(ncclInvalidArgument, "ncclCommInitRankConfig: no such rank",
                  std::to_string(rank) + " of " + std::to_string(size));
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return ncclUnhandledCudaError;
  auto comm = std::make_unique<ncclComm>();
  comm->size = size;
  if (!comm->ranks.join(id.internal, rank, size, device))
    return refuse(ncclInvalidArgument, "ncclCommInitRankConfig: an id that is unknown or used");
  comm->place = emulator::allocate_device(1);
  if (comm->place == nullptr) return ncclUnhandledCudaError;
  *to = ncclComm::add(std::move(comm));
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  if (comm == nullptr || comm->phase >= Phase::destroyed)
    return refuse(ncclInvalidArgument, "ncclCommGetAsyncError without a communicator");
  *state = comm->look();
  return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void** to, std::size_t bytes) {
  *to = nullptr;
  if (is_to_fail("ncclMemAlloc")) return ncclUnhandledCudaError;
  *to = emulator::allocate_device(bytes);
  return *to != nullptr ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void* data) {
  if (ncclComm::is_registered(data))
    emulator::report("ncclMemFree of memory that is still registered");
  if (data == nullptr || emulator::free_device(data)) return ncclSuccess;
  return refuse(ncclInvalidArgument, "ncclMemFree of memory that is not the device's");
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* data, std::size_t bytes, void** handle) {
  return call(comm, "ncclCommRegister", [&](ncclComm& known) {
    return known.register_memory(data, bytes, handle, "ncclCommRegister");
  });
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  return call(comm, "ncclCommDeregister",
              [&](ncclComm& known) { return known.deregister(handle, "ncclCommDeregister"); });
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* data, std::size_t bytes,
                                    ncclWindow_t* window, int) {
  return call(comm, "ncclCommWindowRegister", [&](ncclComm& known) {
    if (reinterpret_cast<std::uintptr_t>(data) % NCCL_WIN_REQUIRED_ALIGNMENT != 0)
      return refuse(ncclInvalidArgument, "ncclCommWindowRegister of memory that is not aligned");
    const ncclResult_t result = known.register_memory(data, bytes, reinterpret_cast<void**>(window),
                                                      "ncclCommWindowRegister");
    return result == ncclSuccess ? known.settle_later(nullptr) : result;
  });
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  return call(comm, "ncclCommWindowDeregister", [&](ncclComm& known) {
    return known.deregister(window, "ncclCommWindowDeregister");
  });
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  return call(comm, "ncclAllReduce", [&](ncclComm& known) {
    if (type != ncclFloat || operation != ncclSum)
      return refuse(ncclInvalidArgument, "ncclAllReduce: the stand-in only sums fp32");
    if (count == 0) return ncclSuccess;
    const std::size_t bytes = count * sizeof(float);
    if (!is_of_device(from, bytes) || !is_of_device(to, bytes))
      return refuse(ncclInvalidArgument, "ncclAllReduce of memory that is not the device's");
    if (known.size == 1 && from == to) return ncclSuccess;  // NCCL runs no kernel either
    const bool captured = emulator::is_captured(stream);
    return known.settle_later([=] {
      if (emulator::is_captured(stream) != captured)
        return emulator::report("a capture begins or ends before ncclAllReduce has settled");
      std::vector<emulator::Touch> touches{{to, bytes, true}, {comm->place, 1, true}};
      if (from != to) touches.push_back({from, bytes, false});
      emulator::enqueue(comm->name, stream, std::move(touches), [=] {
        return comm->advance(static_cast<const float*>(from), static_cast<float*>(to), count);
      });
    });
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return call(comm, "ncclCommFinalize", [](ncclComm& known) {
    known.phase = Phase::finalizing;
    return known.settle_later(nullptr);
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return call(comm, "ncclCommDestroy", [](ncclComm& known) {
    known.wait_for_graphs("ncclCommDestroy");
    known.phase = Phase::destroyed;
    emulator::free_device(known.place);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return call(comm, "ncclCommAbort", [](ncclComm& known) {
    known.abort();
    return ncclSuccess;
  });
}

}  // extern "C"
