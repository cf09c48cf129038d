// The contract of a layer: what it asks for once, and what it computes every step.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "net/parameters.h"
#include "src/device.h"
#include "src/view.h"

namespace lockstep {

/// What a layer asks for before step one. Filled by Layer::setup(), read by Model.
class Setup {
 public:
  Setup(Device& device, Type type, bool training, bool input_gradient)
      : device(device), type(type), training(training), input_gradient(input_gradient) {}

  Device& device;
  const Type type;            ///< of the activations
  const bool training;        ///< backward will be called
  const bool input_gradient;  ///< backward must give dx (not the first layer)

  /// A parameter of this layer; the first is weight(0) of every LayerCall, the next weight(1), ...
  void parameter(const std::string& name, Shape shape, Init init, float l2 = 0) {
    parameters.push_back({name, shape, init, l2, {}, 0});
  }
  void save(std::size_t bytes) { saved_bytes += bytes; }  ///< forward -> backward
  void scratch(std::size_t bytes) {
    scratch_bytes = std::max(scratch_bytes, bytes);
  }  ///< within one call

  PlanInput plan(Shape in) const { return {in, type, training, input_gradient}; }

  std::vector<Parameter> parameters;
  std::size_t saved_bytes = 0, scratch_bytes = 0;
};

/// What a layer finds at hand in one call.
struct LayerCall {
  Stream* stream = nullptr;
  std::vector<View> weights;    ///< fp32, in the order of Setup::parameter
  std::vector<View> gradients;  ///< fp32, to be overwritten in backward; empty in inference
  std::byte* saved = nullptr;
  void* scratch = nullptr;
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
  /// Overwrites its gradients and dx (empty where not wanted); may use dy as scratch. x, y are as
  /// in forward.
  virtual void backward(LayerCall& call, View x, View y, View dy, View dx) = 0;
  /// Multiply-adds of forward for the whole batch, counted as if padding were data.
  virtual double multiply_adds() const { return 0; }
  /// Which kernel runs, for people.
  virtual std::string implementation() const = 0;
};

}  // namespace lockstep
