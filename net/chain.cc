// setup() numbers layers, parameters and saved bytes within a holder. Each holder moves the numbers
// of its parts by those before them. A call passes the offsets down in the same way (Part::own). So
// a layer sees only its own part of each array.
#include "net/chain.h"

#include <algorithm>

#include "net/layers.h"

namespace lockstep {

Shape Part::setup(Setup& outer, Shape in, bool input_gradient) {
  Setup own(outer.device, outer.type, outer.training, input_gradient,
            outer.name.empty() || name_.empty() ? outer.name + name_ : outer.name + "/" + name_);
  const Shape out = layer_->setup(own, in);
  holds_others_ = !own.layers.empty();
  // A layer that holds others has their summaries already, and their parameters have full names.
  if (!holds_others_) {
    LayerSummary summary{.name = own.name,
                         .kind = layer_->kind(),
                         .implementation = layer_->implementation(),
                         .output = out,
                         .multiply_adds = layer_->multiply_adds(),
                         .inputs = {LayerSummary::kInput},
                         .numbers = std::move(own.numbers)};
    for (Parameter& parameter : own.parameters) {
      parameter.name = own.name + "/" + parameter.name;
      (parameter.trained() ? summary.parameters : summary.statistics) += parameter.shape.count();
    }
    own.layers.push_back(std::move(summary));
  }
  number_ = static_cast<int>(outer.layers.size());
  first_ = outer.parameters.size();
  count_ = own.parameters.size();
  for (Parameter& parameter : own.parameters) {
    learns_ |= !parameter.trained() || parameter.stepped();
    if (layers_.empty() || layers_.back() != parameter.layer) layers_.push_back(parameter.layer);
    parameter.layer += number_;
    outer.parameters.push_back(std::move(parameter));
  }
  // Within the layer kInput is its own input, which is the output of the part before it here.
  for (LayerSummary& layer : own.layers) {
    for (int& input : layer.inputs)
      input = input == LayerSummary::kInput ? outer.source : input + number_;
    outer.layers.push_back(std::move(layer));
  }
  outer.source = static_cast<int>(outer.layers.size()) - 1;
  saved_ = outer.save(own.saved_bytes);
  scratch_bytes_ = own.scratch_bytes;
  return out;
}

LayerCall Part::own(const LayerCall& call) const {
  LayerCall own = call;
  own.weights = call.weights.subspan(first_, count_);
  if (!call.gradients.empty()) own.gradients = call.gradients.subspan(first_, count_);
  own.saved += saved_;
  own.layer += number_;
  return own;
}

void Part::forward(const LayerCall& call, View x, View y) {
  LayerCall mine = own(call);
  LayerTimer* const timer = holds_others_ ? nullptr : call.timer;
  if (timer != nullptr) timer->begin();
  layer_->forward(mine, x, y);
  if (timer != nullptr) timer->end(mine.layer, /*backward=*/false);
}

void Part::backward(const LayerCall& call, View x, View y, View dy, View dx) {
  // Without both, nothing that the layer computes would be read.
  if (dx || learns_) {
    LayerCall mine = own(call);
    LayerTimer* const timer = holds_others_ ? nullptr : call.timer;
    if (timer != nullptr) timer->begin();
    layer_->backward(mine, x, y, dy, dx);
    if (timer != nullptr) timer->end(mine.layer, /*backward=*/true);
    if (holds_others_) return;  // they have reported
  }
  if (call.listener == nullptr) return;
  for (std::size_t i = layers_.size(); i-- > 0;)
    call.listener->written(call.layer + number_ + layers_[i]);
}

Chain::Chain(NamedLayers layers) {
  expect(!layers.empty(), "a chain has at least one layer");
  for (auto& [name, layer] : layers) parts_.emplace_back(name, std::move(layer));
}

Shape Chain::setup(Setup& setup, Shape in) {
  type_ = setup.type;
  training_ = setup.training;
  std::size_t scratch = 0;
  Shape shape = in;
  bool learns = setup.input_gradient;
  for (Part& part : parts_) {
    // The output of the part before. Neighbours lie in different halves, because a part reads one
    // and writes the other.
    if (&part != &parts_.front()) {
      const std::size_t bytes = shape.count() * size_of(type_);
      outputs_.emplace_back(shape, training_ ? setup.save(bytes) : 0);
      std::size_t& half = ping_pong_bytes_[(outputs_.size() - 1) % 2];
      half = std::max(half, Arena::aligned(bytes));
    }
    shape = part.setup(setup, shape, learns);
    learns |= part.learns();
    // Parts before the first one that learns get no dy at all: backward ends above them.
    if (!learns) ++first_;
    scratch = std::max(scratch, part.scratch_bytes());
  }
  setup.scratch(ping_pong_bytes_[0] + ping_pong_bytes_[1] + scratch);
  return shape;
}

View Chain::ping_pong(const LayerCall& call, std::size_t part) const {
  return {call.scratch + part % 2 * ping_pong_bytes_[0], outputs_[part].first, type_};
}

View Chain::output(const LayerCall& call, std::size_t part) const {
  if (!training_) return ping_pong(call, part);
  return {call.saved + outputs_[part].second, outputs_[part].first, type_};
}

LayerCall Chain::inner(const LayerCall& call) const {
  LayerCall inner = call;
  inner.scratch += ping_pong_bytes_[0] + ping_pong_bytes_[1];
  return inner;
}

void Chain::forward(LayerCall& call, View x, View y) {
  const LayerCall for_parts = inner(call);
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const View out = i + 1 < parts_.size() ? output(call, i) : y;
    parts_[i].forward(for_parts, x, out);
    x = out;
  }
}

void Chain::backward(LayerCall& call, View x, View y, View dy, View dx) {
  const LayerCall for_parts = inner(call);
  for (std::size_t i = parts_.size(); i-- > first_;) {
    const View in = i == 0 ? x : output(call, i - 1);
    const View gradient = i == first_ ? dx : ping_pong(call, i - 1);
    parts_[i].backward(for_parts, in, y, dy, gradient);
    y = in;
    dy = gradient;
  }
  // These compute nothing, but the listener counts on a report of each layer with parameters.
  for (std::size_t i = first_; i-- > 0;) parts_[i].backward(for_parts, {}, {}, {}, {});
}

std::unique_ptr<Layer> chain(NamedLayers layers) {
  return std::make_unique<Chain>(std::move(layers));
}

}  // namespace lockstep
