// The whole joint to a back end: memory, order (Stream, Event) and the plans of the operations that
// a library computes. src/cpu holds the bodies for CPU cores. Another back end is another folder
// with the same bodies; no layer changes.
//
// Layout everywhere: activations N, H, W, C; convolution filters out, height, width, in; dense
// weights out, in. Activations are fp32 or bf16 (the plan's `type`); weights, biases and their
// gradients are always fp32 at this joint: a plan that computes in bf16 converts the weights itself
// and accumulates in fp32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "src/view.h"

namespace lockstep {

/// An ordered queue of work. On the CPU work is done when the call returns and a Stream only says
/// with how many threads. A Stream is used by one host thread at a time.
struct Stream {
  int threads = 1;
};

/// A mark in a stream that another stream or the host can wait for. Nothing to do on the CPU.
struct Event {
  void record(Stream&) {}
  void wait(Stream&) {}
};

/// Device memory with its owner. Aligned to at least 4096 bytes.
using Memory = std::unique_ptr<std::byte[], std::function<void(std::byte*)>>;

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

struct ConvolutionSpec {
  PlanInput input;
  std::int64_t filters = 0, kernel = 0, stride = 1, pad = 0;
  bool relu = false;
  Shape output() const {
    const auto extent = [&](std::int64_t in) { return (in + 2 * pad - kernel) / stride + 1; };
    return {input.x[0], extent(input.x[1]), extent(input.x[2]), filters};
  }
};

struct DenseSpec {
  PlanInput input;  ///< x is read as N rows of x.row() features
  std::int64_t features = 0;
  bool relu = false;
};

/// Maximum over kernel x kernel windows; out = ceil(in / stride), short windows at the end ("SAME"
/// padding).
struct MaxPoolSpec {
  PlanInput input;
  std::int64_t kernel = 0, stride = 1;
  bool relu = false;  ///< y = max(0, maximum): the same as a ReLU before the pool, at a fraction of
                      ///< its traffic
  Shape output() const {
    const auto extent = [&](std::int64_t in) { return (in + stride - 1) / stride; };
    return {input.x[0], extent(input.x[1]), extent(input.x[2]), input.x[3]};
  }
};

class MaxPoolPlan {
 public:
  virtual ~MaxPoolPlan() = default;
  /// `argmax` takes one byte per element of y, for backward: which element of the window won.
  virtual void forward(Stream&, View x, View y, std::uint8_t* argmax) = 0;
  virtual void backward(Stream&, View dy, const std::uint8_t* argmax, View dx) = 0;
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
  virtual void backward(Stream&, View x, View dy, View dx) = 0;
};

/// One device as one rank sees it. Calls throw Error. Owned by the program, outlives everything
/// made from it.
class Device {
 public:
  virtual ~Device() = default;

  /// "cpu:0-3 (4 threads, AVX-512 with bf16)"
  virtual std::string describe() const = 0;
  /// What the last bits of its results depend on besides threads: "oneDNN 2.6.3 with AVX-512".
  virtual std::string arithmetic() const = 0;
  virtual Stream stream() = 0;
  /// Zeroed memory.
  virtual Memory allocate(std::size_t bytes) = 0;

  virtual std::unique_ptr<AffinePlan> convolution(const ConvolutionSpec&) = 0;
  virtual std::unique_ptr<AffinePlan> dense(const DenseSpec&) = 0;
  virtual std::unique_ptr<MaxPoolPlan> max_pool(const MaxPoolSpec&) = 0;
  virtual std::unique_ptr<ResponseNormPlan> response_norm(const ResponseNormSpec&) = 0;
};

/// The CPU cores that this process may run on, used with `threads` threads (0: one per core), which
/// are started now. To be made by the thread that computes. Throws Error (kExitUsage) where OpenMP
/// does not start that many, or they are more than 1024 or 8 per processor of the machine.
std::unique_ptr<Device> make_cpu_device(int threads);

}  // namespace lockstep
