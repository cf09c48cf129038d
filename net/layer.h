// The contract of a layer: what it asks for once, and what it computes every step. Layers are
// composed by net/chain.h.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "net/parameters.h"
#include "src/base/view.h"
#include "src/device/arena.h"
#include "src/device/device.h"

namespace lockstep {

/// One layer as the memory plan and people see it.
struct LayerSummary {
  std::string name, kind, implementation;
  Shape output;
  /// Elements that are trained, and elements of statistics.
  std::int64_t parameters = 0, statistics = 0;
  /// Forward, whole batch.
  double multiply_adds = 0;
};

/// What a layer asks for before step one. Filled by Layer::setup(), read by the Part that holds it.
class Setup {
 public:
  Setup(Device& device, Type type, bool training, bool input_gradient, std::string name)
      : device(device),
        type(type),
        training(training),
        input_gradient(input_gradient),
        name(std::move(name)) {}

  Device& device;
  /// Of the activations.
  const Type type;
  /// Backward will be called.
  const bool training;
  /// Backward must give dx (not the first layer with parameters, nor those before it).
  const bool input_gradient;
  /// "block1/conv2": unique in the model.
  const std::string name;

  /// A parameter of this layer; the first is weight(0) of every LayerCall, the next weight(1), ...
  void parameter(const std::string& own_name, Shape shape, Init init, float l2 = 0,
                 float rate = 1) {
    parameters.push_back({own_name, shape, init, l2, {}, 0, 0, rate});
  }
  /// A value that is kept and saved with the parameters, but not trained. Where a parameter has its
  /// gradient, backward writes the batch's value times TrainingBatch::share. Summed over all shards
  /// that is the mean of the step, of which the value then takes `follow`.
  void statistic(const std::string& own_name, Shape shape, Init init, float follow) {
    parameters.push_back({own_name, shape, init, 0, {}, 0, follow});
  }
  /// Memory from forward to backward; its place behind LayerCall::saved.
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
  /// Of the layers within this one; empty if it holds none.
  std::vector<LayerSummary> layers;
};

/// Sums over all shards that train together, whichever rank has them.
class AcrossShards {
 public:
  virtual ~AcrossShards() = default;
  /// How many they are; each has as many samples.
  virtual int shards() const = 0;
  /// Gives the work that replaces `values`, `count` floats in memory of the device, by their sum
  /// over the shards, which is the same bits for each of them and however they are spread over
  /// ranks. All shards ask for the same sums in the same order. `count` is that of one of the
  /// layer's statistics, or twice that. Gradients are written after the last sum: until then other
  /// shards' may come to lie there.
  virtual void sum(Stream& stream, float* values, std::int64_t count) = 0;
};

/// Which samples a batch of training holds, and what part of the step it is.
struct TrainingBatch {
  std::uint64_t seed = 0;
  /// The samples are those at *position + offset, + 1, ... of the run's stream (src/data/loader.h),
  /// which counts on over all epochs and ranks: random numbers keyed by it belong to the sample,
  /// whichever rank has it. Read when the work is done.
  const std::int64_t* position = nullptr;
  std::int64_t offset = 0;
  /// Of the step's samples: 1 / shards.
  float share = 1;
  /// For what is to be that of all shards; null: each is by itself.
  AcrossShards* across = nullptr;
};

/// Told during Model::backward() whose gradients are there. Called by the computing thread.
class GradientListener {
 public:
  virtual ~GradientListener() = default;
  /// The work that writes all gradients of layer number `layer` (Parameter::layer) has been given.
  /// Layers come last to first, each once; those without parameters never come.
  virtual void written(int layer) = 0;
};

/// What a layer finds at hand in one call.
struct LayerCall {
  Stream* stream = nullptr;
  /// fp32, in the order of Setup::parameter and Setup::statistic.
  std::span<const View> weights;
  /// fp32, to be overwritten in backward; empty in inference.
  std::span<const View> gradients;
  std::byte* saved = nullptr;
  std::byte* scratch = nullptr;
  /// Of backward and of the forward before it; null in inference, with a model made for training
  /// too.
  const TrainingBatch* batch = nullptr;
  /// In backward: is told which gradients are written (by net/chain.h). Null: no calls.
  GradientListener* listener = nullptr;
  /// Number of this layer, or of the first one within it (Parameter::layer).
  int layer = 0;
};

/// Made by the factories of layers.h, owned by one Model, called by one thread. x and y are N, H,
/// W, C or N, features.
class Layer {
 public:
  virtual ~Layer() = default;
  /// Plans for the input shape `in` (batch in front) and returns the shape of y. Throws Error if
  /// `in` does not fit.
  virtual Shape setup(Setup& setup, Shape in) = 0;
  virtual void forward(LayerCall& call, View x, View y) = 0;
  /// Overwrites its gradients and dx (empty where not wanted), and dy too unless keeps_dy(). x, y
  /// are as in forward.
  virtual void backward(LayerCall& call, View x, View y, View dy, View dx) = 0;
  /// Whether backward leaves dy as it finds it, which saves a residual() that ends with this layer
  /// a copy. Asked after setup().
  virtual bool keeps_dy() const { return false; }
  /// Multiply-adds of forward for the whole batch, counted as if padding were data.
  virtual double multiply_adds() const { return 0; }
  /// Which kernel runs, for people.
  virtual std::string implementation() const = 0;
  /// What it computes, for people: "convolution".
  virtual std::string kind() const { return implementation(); }
};

}  // namespace lockstep
