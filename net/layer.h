// The contract of a layer: what it asks for once, and what it computes every step. Layers are
// composed by net/chain.h.
#pragma once

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "net/parameters.h"
#include "src/base/view.h"
#include "src/device/arena.h"
#include "src/device/device.h"

namespace lockstep {

/// One layer for the memory plan, for people and for exports: a model as data.
struct LayerSummary {
  /// The model's input in place of a layer.
  static constexpr int kInput = -1;

  std::string name, kind, implementation;
  Shape output;
  /// Elements of trained parameters, and of statistics.
  std::int64_t parameters = 0, statistics = 0;
  /// In forward, for the whole batch.
  double multiply_adds = 0;
  /// The layers whose outputs it reads, by index in the model, or kInput.
  std::vector<int> inputs = {};
  /// The numbers that define forward besides its parameters: {"stride", 2}. A flag is 0 or 1.
  std::map<std::string, double> numbers = {};
};

/// The needs of a layer before step one. Layer::setup() fills it, and the layer's Part reads it.
class Setup {
 public:
  Setup(Device& device, Type type, bool training, bool input_gradient, std::string name)
      : device(device),
        type(type),
        training(training),
        input_gradient(input_gradient),
        name(std::move(name)) {}

  Device& device;
  /// Type of the activations.
  const Type type;
  /// Whether backward will be called.
  const bool training;
  /// Whether backward must compute dx: not in the first layer with parameters, nor before it.
  const bool input_gradient;
  /// "block1/conv2": unique in the model.
  const std::string name;

  /// A parameter of this layer; the first is weight(0) of every LayerCall, the next weight(1), ...
  void parameter(const std::string& own_name, Shape shape, Init init, float l2 = 0,
                 float rate = 1) {
    parameters.push_back({own_name, shape, init, l2, {}, 0, 0, rate});
  }
  /// A value that is saved with the parameters, but not trained. In place of a gradient, backward
  /// writes the batch's value times TrainingBatch::share. The sum over all shards is the step's
  /// mean, and the value moves towards it by the factor `follow`.
  void statistic(const std::string& own_name, Shape shape, Init init, float follow) {
    parameters.push_back({own_name, shape, init, 0, {}, 0, follow});
  }
  /// Memory from forward to backward. Returns its offset from LayerCall::saved.
  std::size_t save(std::size_t bytes) {
    const std::size_t place = saved_bytes;
    saved_bytes += Arena::aligned(bytes);
    return place;
  }
  /// Memory within one call.
  void scratch(std::size_t bytes) { scratch_bytes = std::max(scratch_bytes, bytes); }

  PlanInput plan(Shape in) const { return {in, type, training, input_gradient}; }

  std::vector<Parameter> parameters;
  std::size_t saved_bytes = 0, scratch_bytes = 0;
  /// LayerSummary::numbers of this layer.
  std::map<std::string, double> numbers;
  /// Summaries of the layers within this one; empty if there are none. The last one returns y.
  std::vector<LayerSummary> layers;
  /// The input of the next part, by index in `layers`: the part before, or kInput for x.
  int source = LayerSummary::kInput;
};

/// Sums over all shards that train together, on any ranks.
class AcrossShards {
 public:
  virtual ~AcrossShards() = default;
  /// The number of shards. All have equally many samples.
  virtual int shards() const = 0;
  /// Enqueues the work that replaces `values`, `count` floats of the device, by their sum over the
  /// shards. The sum is bitwise identical for all shards and any number of ranks. All shards
  /// request the same sums in the same order. `count` is that of one of the layer's statistics, or
  /// twice that. A layer writes gradients after the last sum, because other shards use their memory
  /// before.
  virtual void sum(Stream& stream, float* values, std::int64_t count) = 0;
};

/// The samples of a training batch, and the batch's part of the step.
struct TrainingBatch {
  std::uint64_t seed = 0;
  /// The samples are those at *position + offset, + 1, ... of the run's stream (src/data/loader.h),
  /// which counts on over all epochs and ranks. Random numbers keyed by the position belong to the
  /// sample, on any rank. The work reads it when it runs.
  const std::int64_t* position = nullptr;
  std::int64_t offset = 0;
  /// Share of the step's samples: 1 / shards.
  float share = 1;
  /// Sums over all shards; null: each shard computes by itself.
  AcrossShards* across = nullptr;
};

/// Learns during Model::backward() which gradients are ready. Called by the computing thread.
class GradientListener {
 public:
  virtual ~GradientListener() = default;
  /// The work that writes all gradients of layer number `layer` (Parameter::layer) is enqueued.
  /// Called once for each layer with parameters, last to first.
  virtual void written(int layer) = 0;
};

/// Learns when layers compute, for benchmarks. Called by the computing thread. On an asynchronous
/// device it is the work that is enqueued. Layers that hold others are left out.
class LayerTimer {
 public:
  virtual ~LayerTimer() = default;
  virtual void begin() = 0;
  /// It was layer number `layer` of Model::layers().
  virtual void end(int layer, bool backward) = 0;
};

/// The arguments of one call of a layer.
struct LayerCall {
  Stream* stream = nullptr;
  /// fp32, in the order of Setup::parameter and Setup::statistic.
  std::span<const View> weights;
  /// fp32, to be overwritten in backward; empty in inference.
  std::span<const View> gradients;
  std::byte* saved = nullptr;
  std::byte* scratch = nullptr;
  /// The batch of backward and of the forward before it. Null: inference, also with a model made
  /// for training.
  const TrainingBatch* batch = nullptr;
  /// In backward, net/chain.h reports written gradients to it. Null: no calls.
  GradientListener* listener = nullptr;
  LayerTimer* timer = nullptr;  ///< null: none
  /// Number of this layer, or of the first one within it (Parameter::layer).
  int layer = 0;
};

/// Made by the factories of layers.h, owned by one Model, called by one thread. x and y are N, H,
/// W, C, or N, L, C, or N, features.
class Layer {
 public:
  virtual ~Layer() = default;
  /// Plans for the input shape `in` (batch in front) and returns the shape of y. Throws Error if
  /// `in` does not fit.
  virtual Shape setup(Setup& setup, Shape in) = 0;
  virtual void forward(LayerCall& call, View x, View y) = 0;
  /// Overwrites its gradients and dx, and dy too unless keeps_dy(). x, y are as in forward. dx is
  /// empty if no layer needs it; a layer without parameters is then not called.
  virtual void backward(LayerCall& call, View x, View y, View dy, View dx) = 0;
  /// Whether backward leaves dy unchanged. This saves a residual() that ends with this layer a
  /// copy. Called after setup().
  virtual bool keeps_dy() const { return false; }
  /// Multiply-adds of forward for the whole batch, counted as if padding were data.
  virtual double multiply_adds() const { return 0; }
  /// The kernel that runs, for people.
  virtual std::string implementation() const = 0;
  /// Its kind, for people: "conv2d".
  virtual std::string kind() const { return implementation(); }
};

}  // namespace lockstep
