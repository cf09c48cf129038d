// Memory and events of CUDA that the processes of a host share by handles.
#include <array>
#include <cstring>
#include <exception>
#include <utility>

#include "collectives/reducers/peers.h"
#include "src/base/check.h"
#include "src/device/cuda/runtime.h"

namespace lockstep {
namespace {

/// A handle shares the whole block that cudaMalloc took the memory from: ours alone.
constexpr std::size_t kBlock = 2 << 20;

using CudaEvent = std::unique_ptr<CUevent_st, decltype(&cudaEventDestroy)>;
using CudaMemory = std::unique_ptr<void, decltype(&cudaFree)>;

/// What ranks tell each other: bytes of a handle, as Comm carries them.
using Handle = std::array<std::uint64_t, CUDA_IPC_HANDLE_SIZE / sizeof(std::uint64_t)>;
static_assert(sizeof(Handle) == sizeof(cudaIpcMemHandle_t));
static_assert(sizeof(Handle) == sizeof(cudaIpcEventHandle_t));

/// What a rank has opened of another.
struct Opened {
  CudaMemory memory{nullptr, cudaIpcCloseMemHandle};
  std::vector<CudaEvent> events;
};

class CudaPeers : public Peers {
 public:
  CudaPeers(const ReducerSpec& spec, int marks) : comm_(spec.comm), stream_(spec.device.stream()) {
    static_cast<void>(stream_->cuda());  // whose device is this thread's now
    std::vector<Handle> handles;
    agree(comm_, [&] {
      const std::size_t bytes = (spec.count * sizeof(float) / kBlock + 1) * kBlock;
      void* data = nullptr;
      check_cuda(cudaMalloc(&data, bytes), "cudaMalloc");
      memory_.reset(data);
      expect(reinterpret_cast<std::uintptr_t>(data) % kPageBytes == 0, "memory of CUDA lies oddly");
      check_cuda(cudaMemset(data, 0, bytes), "cudaMemset");
      check_cuda(cudaStreamSynchronize(nullptr), "cudaMemset");
      cudaIpcMemHandle_t handle;
      check_cuda(cudaIpcGetMemHandle(&handle, data), "cudaIpcGetMemHandle");
      std::memcpy(&handles.emplace_back(), &handle, sizeof handle);
      for (int mark = 0; mark < marks; ++mark) {
        cudaEvent_t event = nullptr;
        check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventInterprocess),
                   "cudaEventCreate");
        events_.emplace_back(event, cudaEventDestroy);
        cudaIpcEventHandle_t shared;
        check_cuda(cudaIpcGetEventHandle(&shared, event), "cudaIpcGetEventHandle");
        std::memcpy(&handles.emplace_back(), &shared, sizeof shared);
      }
    });
    const std::vector<std::uint64_t> words = comm_.all_gather(std::span<const std::uint64_t>(
        handles.front().data(), handles.size() * std::tuple_size_v<Handle>));
    agree(comm_, [&] {
      for (int rank = 0; rank < comm_.size(); ++rank) {
        Opened& opened = others_.emplace_back();
        if (rank == comm_.rank()) continue;  // a process does not open its own
        const std::uint64_t* next = words.data() + static_cast<std::size_t>(rank) * handles.size() *
                                                       std::tuple_size_v<Handle>;
        open(opened, next, marks);
      }
    });
  }

  /// Nobody may free what another has open.
  ~CudaPeers() override {
    others_.clear();
    if (std::uncaught_exceptions() > 0) return;
    try {
      comm_.barrier();
    } catch (...) {  // the ranks leave anyhow
    }
  }

  float* gradients(int rank) override {
    const bool own = rank == comm_.rank();
    return static_cast<float*>(own ? memory_.get() : at(rank).memory.get());
  }
  void record(int mark, Stream& stream) override {
    check_cuda(cudaEventRecord(events_[mark].get(), stream.cuda()), "cudaEventRecord");
  }
  void wait(int rank, int mark, Stream& stream) override {
    const auto& events = rank == comm_.rank() ? events_ : at(rank).events;
    check_cuda(cudaStreamWaitEvent(stream.cuda(), events[mark].get(), 0), "cudaStreamWaitEvent");
  }

 private:
  static void open(Opened& opened, const std::uint64_t* next, int marks) {
    cudaIpcMemHandle_t handle;
    std::memcpy(&handle, next, sizeof handle);
    void* data = nullptr;
    check_cuda(cudaIpcOpenMemHandle(&data, handle, cudaIpcMemLazyEnablePeerAccess),
               "cudaIpcOpenMemHandle (choose --reducer shared, which goes through the host)");
    opened.memory.reset(data);
    for (int mark = 0; mark < marks; ++mark) {
      cudaIpcEventHandle_t shared;
      std::memcpy(&shared, next += std::tuple_size_v<Handle>, sizeof shared);
      cudaEvent_t event = nullptr;
      check_cuda(cudaIpcOpenEventHandle(&event, shared), "cudaIpcOpenEventHandle");
      opened.events.emplace_back(event, cudaEventDestroy);
    }
  }

  Opened& at(int rank) { return others_[rank]; }

  Comm comm_;
  std::unique_ptr<Stream> stream_;  ///< of the device that all this is of
  CudaMemory memory_{nullptr, cudaFree};
  std::vector<CudaEvent> events_;
  std::vector<Opened> others_;  ///< by rank; this rank's own is empty
};

}  // namespace

std::unique_ptr<Peers> make_cuda_peers(const ReducerSpec& spec, int marks) {
  return std::make_unique<CudaPeers>(spec, marks);
}

bool shares_memory(Device& device) {
  static_cast<void>(device.stream()->cuda());  // whose device is this thread's now
  int index = 0, supported = 0;
  check_cuda(cudaGetDevice(&index), "cudaGetDevice");
  check_cuda(cudaDeviceGetAttribute(&supported, cudaDevAttrIpcEventSupport, index),
             "cudaDeviceGetAttribute");
  return supported != 0;
}

}  // namespace lockstep
