// The calls of NCCL for collectives/reducers/nccl.cc.
#include <nccl.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "collectives/reducers/nccl.h"
#include "src/base/check.h"
#include "src/device/cuda/runtime.h"

namespace lockstep {
namespace {

/// CTAs of a deterministic sum: few, because the backward pass needs the multiprocessors.
constexpr int kFixedCtas = 4;

/// Throws unless the call is complete or under way.
void check_nccl(ncclResult_t result, std::string_view what, ncclComm_t communicator = nullptr) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  const char* more = ncclGetLastError(communicator);
  fail("NCCL failed in {} with \"{}\"{}{}. Set NCCL_DEBUG=INFO to see more.", what,
       ncclGetErrorString(result), more != nullptr && *more != '\0' ? ": " : "",
       more != nullptr ? more : "");
}

class Communicator : public NcclCommunicator {
 public:
  Communicator(const ncclUniqueId& id, const ReducerSpec& spec) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    if (spec.nccl_max_ctas > 0) config.maxCTAs = spec.nccl_max_ctas;
    // NCCL reads its environment when a communicator begins. No other thread changes or reads it
    // then. A value of the user stays, unless results would not be deterministic.
    if (spec.beside_another) setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
    if (spec.deterministic) {
      config.minCTAs = config.maxCTAs = spec.nccl_max_ctas > 0 ? spec.nccl_max_ctas : kFixedCtas;
      setenv("NCCL_ALGO", "Ring", 1);
      setenv("NCCL_PROTO", "Simple", 1);
      // Symmetric kernels add in another order, and these variables do not exclude them.
      setenv("NCCL_WIN_ENABLE", "0", 1);
    }
    check_nccl(
        ncclCommInitRankConfig(&communicator_, spec.comm.size(), id, spec.comm.rank(), &config),
        "ncclCommInitRankConfig");
  }
  ~Communicator() override {
    if (finished_) {
      ncclCommDestroy(communicator_);
    } else {
      abort();
    }
  }

  bool settled() override {
    ncclResult_t state = ncclSuccess;
    check_nccl(ncclCommGetAsyncError(communicator_, &state), "ncclCommGetAsyncError",
               communicator_);
    check_nccl(state, "the communicator", communicator_);
    return state == ncclSuccess;
  }

  Memory allocate(std::size_t bytes) override {
    bytes = std::max<std::size_t>(bytes, 1);
    void* data = nullptr;
    check_nccl(ncclMemAlloc(&data, bytes), "ncclMemAlloc", communicator_);
    Memory memory(static_cast<std::byte*>(data), [this](std::byte* p) {
      if (registered_ != nullptr && communicator_ != nullptr)
        ncclCommDeregister(communicator_, std::exchange(registered_, nullptr));
      ncclMemFree(p);
    });
    check_cuda(cudaMemset(data, 0, bytes), "cudaMemset");
    check_cuda(cudaStreamSynchronize(nullptr), "cudaMemset");
    // Not ncclCommWindowRegister: NCCL chooses symmetric kernels for a window by a cost model.
    check_nccl(ncclCommRegister(communicator_, data, bytes, &registered_), "ncclCommRegister",
               communicator_);
    return memory;
  }

  void sum(float* values, std::int64_t count, Stream& stream) override {
    check_nccl(
        ncclAllReduce(values, values, count, ncclFloat, ncclSum, communicator_, stream.cuda()),
        "ncclAllReduce", communicator_);
  }

  void finish() override {
    check_nccl(ncclCommFinalize(communicator_), "ncclCommFinalize", communicator_);
    finished_ = true;
  }
  void abort() noexcept override {
    finished_ = false;
    if (communicator_ != nullptr) ncclCommAbort(std::exchange(communicator_, nullptr));
  }

 private:
  ncclComm_t communicator_ = nullptr;  ///< null after abort()
  void* registered_ = nullptr;         ///< the memory's handle
  bool finished_ = false;
};

class Library : public NcclLibrary {
 public:
  int version() override {
    int version = 0;
    check_nccl(ncclGetVersion(&version), "ncclGetVersion");
    return version;
  }
  std::string unique_id() override {
    ncclUniqueId id;
    check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
    return {id.internal, sizeof id.internal};
  }
  std::unique_ptr<NcclCommunicator> connect(const std::string& text, const ReducerSpec& spec,
                                            Stream& stream) override {
    ncclUniqueId id;
    expect(text.size() == sizeof id.internal, "not an id of NCCL");
    std::memcpy(id.internal, text.data(), text.size());
    static_cast<void>(stream.cuda());  // selects the device for this thread
    return std::make_unique<Communicator>(id, spec);
  }
};

}  // namespace

NcclLibrary& nccl_library() {
  static Library library;
  return library;
}

}  // namespace lockstep
