// The composition of layers: a Part is a layer within another, a Chain is parts in a row. A model
// is a chain, and its parts may be chains.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "net/layer.h"

namespace lockstep {

using NamedLayers = std::vector<std::pair<std::string, std::unique_ptr<Layer>>>;

/// A layer with its places among those of its holder. The holder calls setup() of its parts in the
/// order opposite to that of backward(), so gradients lie in the order in which they become ready.
class Part {
 public:
  /// An empty name stands for the holder's.
  Part(std::string name, std::unique_ptr<Layer> layer)
      : name_(std::move(name)), layer_(std::move(layer)) {}

  /// Requests from `outer` all that the layer needs, except scratch: the holder requests that.
  Shape setup(Setup& outer, Shape in, bool input_gradient);
  std::size_t scratch_bytes() const { return scratch_bytes_; }
  bool keeps_dy() const { return layer_->keeps_dy(); }
  /// Whether it has trained parameters, or statistics. If not, backward() without dx only reports
  /// its frozen layers to the listener.
  bool learns() const { return learns_; }

  /// `call` is the holder's, with scratch that the part may use.
  void forward(const LayerCall& call, View x, View y);
  void backward(const LayerCall& call, View x, View y, View dy, View dx);

 private:
  LayerCall own(const LayerCall& call) const;

  std::string name_;
  std::unique_ptr<Layer> layer_;
  bool holds_others_ = false, learns_ = false;
  int number_ = 0;  ///< of the layer, or of the first layer within it, among the holder's
  std::size_t first_ = 0, count_ = 0, saved_ = 0, scratch_bytes_ = 0;
  std::vector<int> layers_;  ///< of its parameters, in forward order, counted from `number_`
};

class Chain : public Layer {
 public:
  explicit Chain(NamedLayers layers);

  Shape setup(Setup& setup, Shape in) override;
  void forward(LayerCall& call, View x, View y) override;
  void backward(LayerCall& call, View x, View y, View dy, View dx) override;
  bool keeps_dy() const override { return parts_.back().keeps_dy(); }
  std::string implementation() const override { return "chain"; }

 private:
  /// The output of any part except the last: saved for backward, or in one of two halves of
  /// scratch.
  View output(const LayerCall& call, std::size_t part) const;
  /// One of two halves of scratch, which activations, or their gradients, use alternately.
  View ping_pong(const LayerCall& call, std::size_t part) const;
  LayerCall inner(const LayerCall& call) const;

  std::vector<Part> parts_;
  /// The first part that needs gradients.
  std::size_t first_ = 0;
  /// Shape of y and offset from LayerCall::saved, for all parts except the last.
  std::vector<std::pair<Shape, std::size_t>> outputs_;
  Type type_ = Type::f32;
  bool training_ = false;
  /// Bytes of the two halves.
  std::size_t ping_pong_bytes_[2] = {0, 0};
};

}  // namespace lockstep
