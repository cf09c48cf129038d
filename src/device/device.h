// The interface of a back end: memory, order (Stream, Event, Graph) and plans of the operations
// that a library computes. src/device/cpu implements it for CPU cores. Another back end is another
// folder; no layer changes.
//
// Layouts: activations N, H, W, C; convolution filters out, height, width, in; dense weights out,
// in. Activations are fp32 or bf16 (the plan's `type`). Weights, biases and their gradients
// are always fp32. A 16-bit plan converts weights and biases itself and accumulates in fp32. It may
// round dw once to its own type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/view.h"
#include "src/device/memory.h"

struct CUstream_st;

namespace lockstep {

/// A queue of work that runs in order. On the CPU, work runs in the call that enqueues it. On other
/// devices that call returns at once; the work runs later, and its errors appear at synchronize(),
/// Event::done() or a later call. One host thread at a time.
class Stream {
 public:
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Blocks until the queue is empty. Never inside a step.
  virtual void synchronize() = 0;
  /// CPU cores for host work that this thread enqueues now.
  virtual int threads() const = 0;
  /// The CUDA stream behind this stream; makes its device the calling thread's device. null: the
  /// work is host code.
  virtual CUstream_st* cuda() const { return nullptr; }
  /// Enqueues host code. Only for src, and only if the memory is the host's. `work` must own the
  /// objects that it uses; memory behind its pointers must live until it has run.
  template <class Work>
  void enqueue(Work work) {
    if (later_) {
      append(std::function<void()>(std::move(work)));
    } else {
      work();
      if (done_) done_();
    }
  }
  /// Calls `done` after each piece of host work that runs in enqueue(), on the thread that ran it.
  /// So an observer can distinguish slow work from a hang.
  void after_each(std::function<void()> done) { done_ = std::move(done); }

 protected:
  explicit Stream(bool later) : later_(later) {}
  virtual void append(std::function<void()> work) = 0;

 private:
  bool later_;
  std::function<void()> done_;
};

/// The CPU's stream: all work runs at once, on the thread that enqueues it. The team of `threads`
/// belongs to the thread that created the stream; any other thread uses only its own core.
class HostStream final : public Stream {
 public:
  explicit HostStream(int threads = 1)
      : Stream(false), threads_(threads), owner_(std::this_thread::get_id()) {}
  void synchronize() override {}
  int threads() const override { return std::this_thread::get_id() == owner_ ? threads_ : 1; }

 private:
  void append(std::function<void()> work) override { work(); }

  int threads_;
  std::thread::id owner_;
};

/// A mark in a stream that another stream or the host can wait for.
class Event {
 public:
  virtual ~Event() = default;
  /// Marks the work that is in `stream` now.
  virtual void record(Stream& stream) = 0;
  /// Work that `stream` gets from now on runs after the last record(). Without a record() it does
  /// not wait.
  virtual void wait(Stream& stream) = 0;
  /// Whether the last record() is reached. Never blocks; throws the device's error.
  virtual bool done() const = 0;
};

/// Work that was captured once and is repeated as a whole: the same pointers, sizes and scalars.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void launch(Stream& stream) = 0;
};

/// The place of memory. The host can read memory on the device only if
/// DeviceTraits::memory_is_host. Kernels see memory on the host at the same address.
enum class Place { device, host };

/// The order of streams that have work at the same time: high streams use the resources that
/// finished work frees.
enum class Priority { normal, high };

/// A layer that is linear in its weights: y = x * w + b. Planned once for fixed shapes, then run
/// many times, by one thread at a time. All three calls use `scratch`, a workspace of
/// scratch_bytes() whose contents need not survive between calls. Without biases in the spec, b and
/// db are empty views.
class AffinePlan {
 public:
  virtual ~AffinePlan() = default;
  /// y = x * w + b, then ReLU if the spec requests it.
  virtual void forward(Stream&, View x, View w, View b, View y, void* scratch) = 0;
  /// dx = dy * w^T. Only in plans made for training with an input gradient.
  virtual void backward_data(Stream&, View dy, View w, View dx, void* scratch) = 0;
  /// dw and db are overwritten. Only in plans made for training. dw is an empty view if the weights
  /// are frozen.
  virtual void backward_weights(Stream&, View x, View dy, View dw, View db, void* scratch) = 0;
  virtual std::size_t scratch_bytes() const = 0;
  /// The library and its kernel, for logs.
  virtual std::string implementation() const = 0;
};

/// The input of every plan: the shape of x, the type of the activations, and the calls that must
/// work.
struct PlanInput {
  Shape x;
  Type type = Type::f32;
  bool training = true;        ///< backward_* must work
  bool input_gradient = true;  ///< backward_data must work, if `training`
  bool frozen = false;         ///< backward_weights computes only the biases' gradient
};

/// Kernel, stride, pad and dilation are the same along H and W. A 1-d convolution is along W only:
/// x is N, 1, W, C and its filters are out, 1, width, in.
struct ConvolutionSpec {
  PlanInput input;
  std::int64_t filters = 0, kernel = 0, stride = 1, pad = 0;
  /// Distance of two taps: the window spans (kernel - 1) * dilation + 1 elements.
  std::int64_t dilation = 1;
  /// Channels and filters are cut into `groups` equal parts, and filters of part i read channels of
  /// part i. Filters are then out, height, width, in / groups.
  std::int64_t groups = 1;
  bool one_dimensional = false;
  bool relu = false;
  bool biases = true;

  std::int64_t kernel_height() const { return one_dimensional ? 1 : kernel; }
  std::int64_t pad_height() const { return one_dimensional ? 0 : pad; }
  Shape weights() const { return {filters, kernel_height(), kernel, input.x[3] / groups}; }
  Shape output() const {
    const auto extent = [&](std::int64_t in) {
      return (in + 2 * pad - (kernel - 1) * dilation - 1) / stride + 1;
    };
    return {input.x[0], one_dimensional ? 1 : extent(input.x[1]), extent(input.x[2]), filters};
  }
};

struct DenseSpec {
  PlanInput input;  ///< x is read as N rows of x.row() features
  std::int64_t features = 0;
  bool relu = false;
  bool biases = true;
  /// Independent layers of one shape, without biases. Their tensors follow each other in x, w and
  /// y, and N counts the rows of all of them.
  std::int64_t layers = 1;
  /// Factors of fp32 may be rounded to 10 bits of mantissa if the device gains from it (TF32).
  bool tf32 = false;
};

/// Local response normalisation across channels: y = x / (bias + alpha * sum of x^2 over 2 * radius
/// + 1 channels)^beta. Source: Krizhevsky, Sutskever, Hinton, "ImageNet classification with deep
/// convolutional neural networks", 2012, 3.3. As in TensorFlow, alpha is not divided by the window.
struct ResponseNormSpec {
  PlanInput input;
  std::int64_t radius = 0;
  float bias = 1, alpha = 1, beta = 0.5f;
};

class ResponseNormPlan {
 public:
  virtual ~ResponseNormPlan() = default;
  virtual void forward(Stream&, View x, View y) = 0;
  /// `scratch`: a workspace of scratch_bytes(); its contents need not survive between calls.
  virtual void backward(Stream&, View x, View dy, View dx, void* scratch) = 0;
  virtual std::size_t scratch_bytes() const { return 0; }
};

/// Products c = a * b of `count` pairs of dense matrices, one after the other. c is rows x columns
/// of type `result`. a is rows x inner of type `type`, or inner x rows if it is transposed; b is
/// inner x columns, or columns x inner.
struct ProductSpec {
  Type type = Type::f32, result = Type::f32;
  std::int64_t count = 0, rows = 0, columns = 0, inner = 0;
  bool transposed_a = false, transposed_b = false;
};

/// Planned once, then run many times, by one thread at a time.
class ProductPlan {
 public:
  virtual ~ProductPlan() = default;
  /// `scratch`: a workspace of scratch_bytes(); its contents need not survive between calls.
  virtual void run(Stream&, View a, View b, View c, void* scratch) = 0;
  virtual std::size_t scratch_bytes() const { return 0; }
  virtual std::string implementation() const = 0;
};

/// Properties of a device.
struct DeviceTraits {
  /// "cpu:0-3 (4 threads, AVX-512 with bf16)"
  std::string description = {};
  /// Versions of its libraries, compiled and loaded; empty if Device::arithmetic() contains them
  /// all.
  std::string libraries = {};
  /// A change of the libraries, if results may be wrong; else empty.
  std::string advice = {};
  /// Unique in the world ("GPU-..." or "MIG-..."); empty if ranks share only cores.
  std::string uuid = {};
  /// The PCI address of the GPU, which all of its slices (MIG) share; empty: not known.
  std::string pci = {};
  /// Whether its layers support activations in bf16. All support fp32.
  bool bf16 = true;
  /// Whether host code may read and write Place::device while no work there does.
  bool memory_is_host = true;
  /// Whether one DenseSpec of several layers is faster than a plan for each.
  bool batches_products = false;
  /// Elements that are computed at a time, 1 for cores: sums are cut into parts accordingly. The
  /// same for all devices of a kind, because the parts decide the last bits.
  std::int64_t lanes = 1;
  /// Steps that may be enqueued before the oldest of them is done.
  int run_ahead = 0;

  bool computes(Type type) const { return type == Type::f32 || (type == Type::bf16 && bf16); }
};

/// One device of one rank. Calls throw Error. Owned by the program; it outlives all objects that it
/// created.
class Device {
 public:
  virtual ~Device() = default;

  const DeviceTraits& traits() const { return traits_; }
  /// Its libraries and settings that decide the last bits of a model with activations of `type`:
  /// "oneDNN 2.6.3 with AVX-512".
  virtual std::string arithmetic(Type type) const = 0;

  virtual std::unique_ptr<Stream> stream(Priority priority = Priority::normal) = 0;
  virtual std::unique_ptr<Event> event() = 0;
  /// Throws OutOfMemory.
  virtual Memory allocate(std::size_t bytes, Place place) = 0;
  /// Page-locks the `bytes` at `data`, memory of the host, so that copies of it are as fast as
  /// those of Place::host. The result ends this in its destructor, before the memory goes. Empty:
  /// the device gains nothing. Throws Error with the reason if the system refuses.
  Memory pin(std::byte* data, std::size_t bytes) const {
    return pin_ ? pin_(data, bytes) : Memory();
  }
  /// Enqueues a copy in any direction.
  virtual void copy(Stream& stream, void* to, const void* from, std::size_t bytes) = 0;
  /// Captures the work that `body` enqueues in `stream`, and in streams that it forks to and joins
  /// again, into a Graph; nothing runs. null: the device does not gain from graphs (the CPU), and
  /// `body` was not called.
  virtual std::unique_ptr<Graph> capture(Stream& stream, const std::function<void()>& body) = 0;

  virtual std::unique_ptr<AffinePlan> convolution(const ConvolutionSpec&) = 0;
  virtual std::unique_ptr<AffinePlan> dense(const DenseSpec&) = 0;
  virtual std::unique_ptr<ResponseNormPlan> response_norm(const ResponseNormSpec&) = 0;
  virtual std::unique_ptr<ProductPlan> product(const ProductSpec&) = 0;

 protected:
  DeviceTraits traits_;  ///< set in the constructor, never changed after it
  std::function<Memory(std::byte*, std::size_t)> pin_;  ///< null: nothing is gained
};

/// The CPU cores that this process may run on, with `threads` threads (0: one per core), which are
/// started now. Only the thread that computes may call this. `convolution` is one of convolutions()
/// (src/device/cpu/convolution.h), `isa` one of instruction_sets()
/// (src/device/cpu/instruction_set.h), `arithmetic` one of arithmetics()
/// (src/device/cpu/arithmetic.h). Throws Error (kExitUsage) for an unknown name, a missing
/// instruction set, threads that OpenMP cannot start, and more threads than 1024 or 8 per
/// processor.
std::unique_ptr<Device> make_cpu_device(int threads, std::string_view convolution = "auto",
                                        std::string_view isa = "auto",
                                        std::string_view arithmetic = "portable");

}  // namespace lockstep
