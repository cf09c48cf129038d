// The whole joint to a back end: memory, order (Stream, Event, Graph) and the plans of the
// operations that a library computes. src/device/cpu holds the bodies for CPU cores. Another back
// end is another folder with the same bodies; no layer changes.
//
// Layout everywhere: activations N, H, W, C; convolution filters out, height, width, in; dense
// weights out, in. Activations are fp32, bf16 or fp16 (the plan's `type`); weights, biases and
// their gradients are always fp32 at this joint: a plan that computes in 16 bits converts weights
// and biases itself, accumulates in fp32, and may round dw once to its own type before it widens
// it.
#pragma once

#include <algorithm>
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

/// A queue of work, done in the order in which it was given. Giving returns at once; on the CPU the
/// work is then done, elsewhere it is done later, and errors appear at synchronize(), Event::done()
/// or a later call. One host thread gives at a time.
class Stream {
 public:
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Blocks until all that was given is done. Never inside a step.
  virtual void synchronize() = 0;
  /// CPU cores for host work that this thread gives now.
  virtual int threads() const = 0;
  /// The CUDA stream whose kernels are this one's work, with its device made that of the calling
  /// thread. Null where the work is host code.
  virtual CUstream_st* cuda() const { return nullptr; }
  /// Host code as one piece of work, for src alone, and only where memory is the host's. `work`
  /// must own all that it names: what it points at must live until it is done.
  template <class Work>
  void give(Work work) {
    if (later_) {
      enqueue(std::function<void()>(std::move(work)));
    } else {
      work();
      if (done_) done_();
    }
  }
  /// `done` is called after each piece of host work that is done as it is given, by the thread that
  /// did it: whoever waits for much work can tell slow from hung.
  void after_each(std::function<void()> done) { done_ = std::move(done); }

 protected:
  explicit Stream(bool later) : later_(later) {}
  virtual void enqueue(std::function<void()> work) = 0;

 private:
  bool later_;
  std::function<void()> done_;
};

/// The CPU's stream: all work is done at once, by the thread that gives it. The team of `threads`
/// belongs to the thread that made the stream; any other has its own core alone.
class HostStream final : public Stream {
 public:
  explicit HostStream(int threads = 1)
      : Stream(false), threads_(threads), owner_(std::this_thread::get_id()) {}
  void synchronize() override {}
  int threads() const override { return std::this_thread::get_id() == owner_ ? threads_ : 1; }

 private:
  void enqueue(std::function<void()> work) override { work(); }

  int threads_;
  std::thread::id owner_;
};

/// A mark in a stream that another stream or the host can wait for.
class Event {
 public:
  virtual ~Event() = default;
  /// All that `stream` was given so far.
  virtual void record(Stream& stream) = 0;
  /// What `stream` is given from now on is done after the record() called last; with none called,
  /// at once.
  virtual void wait(Stream& stream) = 0;
  /// Whether the record() called last is reached. Never blocks; throws what the device reported.
  virtual bool done() const = 0;
};

/// Work that was given once and is repeated as a whole: the same pointers, sizes and scalars.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void launch(Stream& stream) = 0;
};

/// The place of memory: on the device, and not the host's to read unless
/// DeviceTraits::memory_is_host, or on the host, where kernels find it at the same address.
enum class Place { device, host };

/// Whose work goes first where a device has work of several streams: that of the high ones, which
/// take the place that finished work leaves.
enum class Priority { normal, high };

/// A layer that is linear in its weights: y = x * w + b. Planned once for fixed shapes, then run
/// many times; a plan may be used by one thread at a time. All three calls need `scratch` of
/// scratch_bytes(), which holds nothing between calls.
class AffinePlan {
 public:
  virtual ~AffinePlan() = default;
  /// y = x * w + b, then ReLU if the plan was asked for it.
  virtual void forward(Stream&, View x, View w, View b, View y, void* scratch) = 0;
  /// dx = dy * w^T. Only in plans made for training with an input gradient.
  virtual void backward_data(Stream&, View dy, View w, View dx, void* scratch) = 0;
  /// dw and db are overwritten. Only in plans made for training.
  virtual void backward_weights(Stream&, View x, View dy, View dw, View db, void* scratch) = 0;
  virtual std::size_t scratch_bytes() const = 0;
  /// Which kernel of which library runs, for people.
  virtual std::string implementation() const = 0;
};

/// What every plan is made for: the shape of x, the type of the activations, and which calls it
/// must answer.
struct PlanInput {
  Shape x;
  Type type = Type::f32;
  bool training = true;        ///< backward_* will be called
  bool input_gradient = true;  ///< backward_data will be called
};

/// Kernel, stride, pad and dilation are the same along H and W. A 1-d convolution is along W alone:
/// x is N, 1, W, C and its filters are out, 1, width, in.
struct ConvolutionSpec {
  PlanInput input;
  std::int64_t filters = 0, kernel = 0, stride = 1, pad = 0;
  /// Of taps: the window reaches over (kernel - 1) * dilation + 1 elements.
  std::int64_t dilation = 1;
  /// The input channels and the filters are cut into so many equal parts, and each part of the
  /// filters sees the part of the channels of its number: filters are out, height, width, in /
  /// groups.
  std::int64_t groups = 1;
  bool one_dimensional = false;
  bool relu = false;

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
};

/// Local response normalisation across channels: y = x / (bias + alpha * sum of x^2 over 2 * radius
/// + 1 channels)^beta. Source: Krizhevsky, Sutskever, Hinton, "ImageNet classification with deep
/// convolutional neural networks", 2012, 3.3, with alpha not divided by the window, as TensorFlow
/// has it.
struct ResponseNormSpec {
  PlanInput input;
  std::int64_t radius = 0;
  float bias = 1, alpha = 1, beta = 0.5f;
};

class ResponseNormPlan {
 public:
  virtual ~ResponseNormPlan() = default;
  virtual void forward(Stream&, View x, View y) = 0;
  /// `scratch` of scratch_bytes(), which holds nothing between calls.
  virtual void backward(Stream&, View x, View dy, View dx, void* scratch) = 0;
  virtual std::size_t scratch_bytes() const { return 0; }
};

/// Properties of a device.
struct DeviceTraits {
  /// "cpu:0-3 (4 threads, AVX-512 with bf16)"
  std::string description = {};
  /// Versions of the libraries behind it, as compiled with and as found; empty if
  /// Device::arithmetic() contains them all.
  std::string libraries = {};
  /// Names the device among all of the world ("GPU-..." or "MIG-..."); empty if ranks share nothing
  /// but cores.
  std::string uuid = {};
  /// Types of activations that its layers compute with.
  std::vector<Type> types = {Type::f32, Type::bf16};
  /// Whether host code may read and write Place::device while no work runs that does.
  bool memory_is_host = true;
  /// Steps that may be given before the oldest of them is done, Device::kMostAhead at most.
  int run_ahead = 0;

  bool computes(Type type) const {
    return std::find(types.begin(), types.end(), type) != types.end();
  }
};

/// One device as one rank sees it. Calls throw Error. Owned by the program, outlives everything
/// made from it.
class Device {
 public:
  virtual ~Device() = default;

  const DeviceTraits& traits() const { return traits_; }
  /// What the last bits of its results depend on besides threads: "oneDNN 2.6.3 with AVX-512".
  virtual std::string arithmetic() const = 0;
  static constexpr int kMostAhead = 4;

  virtual std::unique_ptr<Stream> stream(Priority priority = Priority::normal) = 0;
  virtual std::unique_ptr<Event> event() = 0;
  virtual Memory allocate(std::size_t bytes, Place place) = 0;
  /// Gives a copy in any direction.
  virtual void copy(Stream& stream, void* to, const void* from, std::size_t bytes) = 0;
  /// Takes the work that `body` gives to `stream`, and to the streams that it forks to and joins
  /// again, into a Graph instead of doing it. Null, and `body` is not called, where the device
  /// gains nothing by it (the CPU).
  virtual std::unique_ptr<Graph> capture(Stream& stream, const std::function<void()>& body) = 0;

  /// Which of a library's kernels plans are made with, where that was chosen by measuring: text by
  /// work, library and device, for other ranks and other runs. Empty where nothing is measured.
  virtual std::string tuning() const { return {}; }
  /// Plans made from now on are as such a text says. False, and nothing is changed, where it is for
  /// another device or library; throws Error where it is no such text.
  virtual bool set_tuning(std::string_view /*text*/) { return false; }
  /// While on, a plan of what tuning() does not know measures what there is to choose from, which
  /// takes time and memory, and notes the fastest.
  virtual void tune(bool /*on*/) {}

  virtual std::unique_ptr<AffinePlan> convolution(const ConvolutionSpec&) = 0;
  virtual std::unique_ptr<AffinePlan> dense(const DenseSpec&) = 0;
  virtual std::unique_ptr<ResponseNormPlan> response_norm(const ResponseNormSpec&) = 0;

 protected:
  DeviceTraits traits_;  ///< set in the constructor, never changed after it
};

/// The CPU cores that this process may run on, used with `threads` threads (0: one per core), which
/// are started now. To be made by the thread that computes. Throws Error (kExitUsage) where OpenMP
/// does not start that many, or they are more than 1024 or 8 per processor of the machine, where
/// `convolution` is none of convolutions() (src/device/cpu/convolution.h), or as
/// use_instruction_set() does with `isa` (src/device/cpu/instruction_set.h).
std::unique_ptr<Device> make_cpu_device(int threads, std::string_view convolution = "auto",
                                        std::string_view isa = "auto");

}  // namespace lockstep
