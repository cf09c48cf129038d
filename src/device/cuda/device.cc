// Memory, streams, events and graphs of the CUDA runtime. Every call first sets the device, because
// the runtime has one current device per thread.

#include "src/device/cuda/device.h"

#include <cstring>
#include <filesystem>
#include <utility>

#include "src/base/check.h"
#include "src/base/round_up.h"
#include "src/device/cuda/layers.h"
#include "src/device/cuda/libraries.h"
#include "src/device/cuda/runtime.h"

namespace lockstep {
namespace {

void use(int device) { check_cuda(cudaSetDevice(device), "cudaSetDevice"); }

class CudaStream final : public Stream {
 public:
  CudaStream(int device, int threads, Priority priority)
      : Stream(/*later=*/true), device_(device), threads_(threads) {
    use(device_);
    int lowest = 0, highest = 0;
    check_cuda(cudaDeviceGetStreamPriorityRange(&lowest, &highest),
               "cudaDeviceGetStreamPriorityRange");
    // Not ordered with the default stream, which has no work here.
    check_cuda(cudaStreamCreateWithPriority(&stream_.handle, cudaStreamNonBlocking,
                                            priority == Priority::high ? highest : lowest),
               "cudaStreamCreate");
  }
  void synchronize() override { check_cuda(cudaStreamSynchronize(cuda()), "the GPU's work"); }
  int threads() const override { return threads_; }
  CUstream_st* cuda() const override {
    use(device_);
    return stream_.handle;
  }

 private:
  void append(std::function<void()>) override {
    expect(false, "a stream of a GPU cannot run host code");
  }

  int device_, threads_;
  CudaHandle<cudaStream_t, cudaStreamDestroy> stream_;
};

/// The CUDA stream behind `stream`.
CUstream_st* cuda_of(const Stream& stream) {
  CUstream_st* const cuda = stream.cuda();
  expect(cuda != nullptr, "the stream must be a GPU's");
  return cuda;
}

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(int device) : device_(device) {
    use(device_);
    check_cuda(cudaEventCreateWithFlags(&event_.handle, cudaEventDisableTiming), "cudaEventCreate");
  }
  void record(Stream& stream) override {
    check_cuda(cudaEventRecord(event_.handle, cuda_of(stream)), "cudaEventRecord");
  }
  void wait(Stream& stream) override {
    check_cuda(cudaStreamWaitEvent(cuda_of(stream), event_.handle, 0), "cudaStreamWaitEvent");
  }
  bool done() const override {
    use(device_);
    const cudaError_t result = cudaEventQuery(event_.handle);
    if (result == cudaErrorNotReady) {
      cudaGetLastError();  // else the next check would see it
      return false;
    }
    check_cuda(result, "the GPU's work");
    return true;
  }

 private:
  int device_;
  CudaHandle<cudaEvent_t, cudaEventDestroy> event_;
};

class CudaGraph final : public Graph {
 public:
  explicit CudaGraph(cudaGraph_t graph) {
    // Without the flag all nodes run with the priority of the stream that launches the graph. With
    // it each keeps the priority of the stream in which it was captured.
    check_cuda(cudaGraphInstantiate(&exec_.handle, graph, cudaGraphInstantiateFlagUseNodePriority),
               "cudaGraphInstantiate");
  }
  void launch(Stream& stream) override {
    check_cuda(cudaGraphLaunch(exec_.handle, cuda_of(stream)), "cudaGraphLaunch");
  }

 private:
  CudaHandle<cudaGraphExec_t, cudaGraphExecDestroy> exec_;
};

/// The driver's id, which is unique for each slice of a GPU (MIG), or else the runtime's.
cudaUUID_t unique_id(int index, const cudaDeviceProp& properties) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  // By the id of the whole GPU, ranks on two slices would look like ranks on one device. Version
  // 12000 asks for the variant of the function that knows slices. It is found at run time, because
  // programs do not link to the driver.
  const cudaError_t result = cudaGetDriverEntryPointByVersion("cuDeviceGetUuid", &function, 12000,
                                                              cudaEnableDefault, &found);
  cudaGetLastError();
  if (result != cudaSuccess || function == nullptr) return properties.uuid;
  cudaUUID_t own{};
  const auto get = reinterpret_cast<int (*)(cudaUUID_t*, int)>(function);
  return get(&own, index) == 0 ? own : properties.uuid;
}

std::string text_of(const cudaUUID_t& id) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(id.bytes);
  std::string text = "GPU";
  for (std::size_t i = 0; i < sizeof(id.bytes); ++i) {
    const bool dash = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
    text += fmt::format("{}{:02x}", dash ? "-" : "", bytes[i]);
  }
  return text;
}

class CudaDevice final : public Device {
 public:
  CudaDevice(const DeviceOptions& options, int index) : options_(options), index_(index) {
    use(index_);
    check_cuda(cudaGetDeviceProperties(&properties_, index_), "cudaGetDeviceProperties");
    const cuda::Numerics numerics{options.deterministic, options.tf32};
    const CudaLibraries libraries = find_cuda_libraries();
    versions_ = fmt::format("{}, {}", libraries.cudnn.text(), libraries.cublaslt.text());
    cudnn_ = cuda::make_cudnn(numerics);
    cublaslt_ = cuda::make_cublaslt(numerics);
    libraries_ = {cudnn_.get(), cublaslt_.get()};
    traits_ = {
        .description = fmt::format("cuda:{} ({}, {:.1f} GiB)", index_, properties_.name,
                                   static_cast<double>(properties_.totalGlobalMem) / (1 << 30)),
        .libraries = libraries.text(),
        .advice = advice(libraries, properties_.major),
        .uuid = text_of(unique_id(index_, properties_)),
        .pci = fmt::format("{:04x}:{:02x}:{:02x}", properties_.pciDomainID, properties_.pciBusID,
                           properties_.pciDeviceID),
        .memory_is_host = false,
        .batches_products = true,
        .lanes = cuda::kLanes,
        .run_ahead = 4};
    pin_ = [index](std::byte* data, std::size_t bytes) {
      use(index);
      check_cuda(cudaHostRegister(data, bytes, cudaHostRegisterPortable), "cudaHostRegister");
      return Memory(data, [](std::byte* p) { cudaHostUnregister(p); });
    };
  }

  std::string arithmetic(Type) const override {
    return fmt::format("{} on {} (sm_{}{}){}{}", versions_, properties_.name, properties_.major,
                       properties_.minor, options_.deterministic ? ", deterministic" : "",
                       options_.tf32 ? ", tf32" : "");
  }

  std::unique_ptr<Stream> stream(Priority priority) override {
    return std::make_unique<CudaStream>(index_, options_.threads, priority);
  }
  std::unique_ptr<Event> event() override { return std::make_unique<CudaEvent>(index_); }
  Memory allocate(std::size_t bytes, Place place) override {
    use(index_);
    return place == Place::host ? allocate_host(bytes) : allocate_device(bytes);
  }
  void copy(Stream& stream, void* to, const void* from, std::size_t bytes) override {
    if (bytes == 0) return;  // pointers may then be null
    check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, cuda_of(stream)),
               "cudaMemcpyAsync");
  }
  std::unique_ptr<Graph> capture(Stream& stream, const std::function<void()>& body) override {
    CUstream_st* const cuda = cuda_of(stream);
    CudaHandle<cudaGraph_t, cudaGraphDestroy> graph;
    // Captures only this thread: other threads may allocate meanwhile.
    check_cuda(cudaStreamBeginCapture(cuda, cudaStreamCaptureModeThreadLocal),
               "cudaStreamBeginCapture");
    try {
      body();
    } catch (...) {
      // The capture must end, or the stream cannot be used any more. The error of body() is the one
      // to report, so that of the end is dropped.
      cudaStreamEndCapture(cuda, &graph.handle);
      cudaGetLastError();
      throw;
    }
    check_cuda(cudaStreamEndCapture(cuda, &graph.handle), "cudaStreamEndCapture");
    return std::make_unique<CudaGraph>(graph.handle);
  }

  std::unique_ptr<AffinePlan> convolution(const ConvolutionSpec& spec) override {
    return cuda::make_convolution(libraries_, spec);
  }
  std::unique_ptr<AffinePlan> dense(const DenseSpec& spec) override {
    return cuda::make_dense(libraries_, spec);
  }
  std::unique_ptr<ResponseNormPlan> response_norm(const ResponseNormSpec& spec) override {
    return cuda::make_response_norm(spec);
  }
  std::unique_ptr<ProductPlan> product(const ProductSpec& spec) override {
    return cuda::make_product(libraries_, spec);
  }

 private:
  static Memory allocate_host(std::size_t bytes) {
    void* data = nullptr;
    check_memory(cudaHostAlloc(&data, bytes + kPageBytes, cudaHostAllocPortable), bytes,
                 "pinned memory");
    std::memset(data, 0, bytes + kPageBytes);
    return aligned(data, [](void* p) { cudaFreeHost(p); });
  }

  /// `data` has a page more than its user needs, because CUDA aligns it only to 256 bytes or less.
  static Memory aligned(void* data, void (*release)(void*)) {
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    auto* const first = reinterpret_cast<std::byte*>(round_up(address, kPageBytes));
    return Memory(first, [data, release](std::byte*) { release(data); });
  }

  static Memory allocate_device(std::size_t bytes) {
    void* data = nullptr;
    check_memory(cudaMalloc(&data, bytes + kPageBytes), bytes, "GPU memory");
    std::unique_ptr<void, void (*)(void*)> owner(data, [](void* p) { cudaFree(p); });
    // The default stream runs this, and other streams do not wait for it. So the host waits.
    check_cuda(cudaMemset(data, 0, bytes + kPageBytes), "cudaMemset");
    check_cuda(cudaStreamSynchronize(nullptr), "cudaMemset");
    return aligned(owner.release(), [](void* p) { cudaFree(p); });
  }

  static void check_memory(cudaError_t result, std::size_t bytes, const char* kind) {
    if (result != cudaErrorMemoryAllocation)
      return check_cuda(
          result, fmt::format("{:.1f} MiB of {}", static_cast<double>(bytes) / (1 << 20), kind));
    cudaGetLastError();
    throw OutOfMemory(fmt::format("out of {}: cannot allocate {:.1f} MiB; use a smaller --batch",
                                  kind, static_cast<double>(bytes) / (1 << 20)));
  }

  DeviceOptions options_;
  int index_;
  cudaDeviceProp properties_{};
  std::string versions_;
  std::unique_ptr<cuda::Library> cudnn_, cublaslt_;
  cuda::Libraries libraries_;  ///< in the order of preference
};

/// The number of devices that this process may use, and the runtime's reason if there are none. A
/// machine without a driver has none.
std::pair<int, cudaError_t> count_devices() {
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  cudaGetLastError();
  return {result == cudaSuccess ? count : 0, result};
}

}  // namespace

std::string why_no_cuda_device() {
  const auto [count, result] = count_devices();
  if (count > 0) return {};
  return absence(result == cudaSuccess ? cudaErrorNoDevice : result,
                 std::filesystem::exists("/dev/nvidiactl"));
}

std::unique_ptr<Device> make_cuda_device(const DeviceOptions& options) {
  const int count = count_devices().first;
  require(count > 0, "{}; use --device cpu", why_no_cuda_device());
  const std::string refused = refusal(find_cuda_libraries());
  require(refused.empty(), "{}", refused);
  return std::make_unique<CudaDevice>(options, options.rank_on_host % count);
}

}  // namespace lockstep
