#include "net/model.h"

#include <algorithm>
#include <ranges>

namespace lockstep {

Model::Model(Device& device, const ModelEntry& entry, Shape sample, int classes, std::int64_t batch,
             Type type, bool training)
    : input_(sample.with_batch(batch)), type_(type), training_(training) {
  require_fit(entry, sample);
  Shape shape = input_;
  std::size_t scratch_bytes = 0, largest = 0, largest_in_turn[2] = {0, 0};
  for (auto& [name, layer] : entry.build(sample, classes)) {
    Setup setup(device, type, training, !nodes_.empty());
    shape = layer->setup(setup, shape);
    for (Parameter& parameter : setup.parameters) {
      parameter.name = name + "/" + parameter.name;
      parameter.layer = static_cast<int>(nodes_.size());
    }
    const std::size_t bytes = static_cast<std::size_t>(shape.count()) * size_of(type);
    largest = std::max(largest, bytes);
    std::size_t& in_turn = largest_in_turn[nodes_.size() % 2];
    in_turn = std::max(in_turn, bytes);
    scratch_bytes = std::max(scratch_bytes, setup.scratch_bytes);
    layers_.push_back({name, layer->implementation(), shape, 0, layer->multiply_adds()});
    Node node{std::move(layer), std::move(setup.parameters), {}, shape, 0, 0, {}};
    if (training) node.activation = activations_.reserve(bytes);
    node.saved = activations_.reserve(setup.saved_bytes);
    nodes_.push_back(std::move(node));
  }
  if (!training) {
    const std::size_t turns[2] = {activations_.reserve(largest_in_turn[0]),
                                  activations_.reserve(largest_in_turn[1])};
    for (std::size_t i = 0; i < nodes_.size(); ++i) nodes_[i].activation = turns[i % 2];
  }
  scratch_ = workspace_.reserve(scratch_bytes);
  if (training) {
    for (std::size_t& turn : turns_) turn = workspace_.reserve(largest);
  }
  activations_.allocate(device);
  workspace_.allocate(device);
  plan_parameters();
}

void Model::plan_parameters() {
  for (Node& node : nodes_ | std::views::reverse) {
    node.range.begin = layout_.count;
    for (Parameter& parameter : node.parameters) {
      parameter.range = {layout_.count, parameter.shape.count()};
      layout_.count += Layout::aligned(parameter.range.count);
      layout_.parameters.push_back(parameter);
      layers_[static_cast<std::size_t>(parameter.layer)].parameters += parameter.range.count;
    }
    node.range.count = layout_.count - node.range.begin;
    if (node.range.count > 0) layout_.layers.push_back(node.range);
  }
}

void Model::bind(float* parameters, float* gradients) {
  for (Node& node : nodes_) {
    node.call.weights.clear();
    node.call.gradients.clear();
    for (const Parameter& parameter : node.parameters) {
      node.call.weights.push_back({parameters + parameter.range.begin, parameter.shape, Type::f32});
      if (gradients == nullptr) continue;
      node.call.gradients.push_back(
          {gradients + parameter.range.begin, parameter.shape, Type::f32});
    }
    node.call.saved = static_cast<std::byte*>(activations_.at(node.saved));
    node.call.scratch = workspace_.at(scratch_);
  }
}

View Model::forward(Stream& stream, View images) {
  expect(images.shape == input_ && images.type == type_,
         "a batch has another shape or type than planned");
  View x = images;
  for (Node& node : nodes_) {
    const View y = output(node);
    node.call.stream = &stream;
    node.layer->forward(node.call, x, y);
    x = y;
  }
  return x;
}

View Model::logits_gradient() { return workspace_.view(turns_[0], nodes_.back().output, type_); }

void Model::backward(Stream& stream, View images, const Ready& ready) {
  expect(training_, "a model planned for inference has no backward");
  View dy = logits_gradient();
  for (std::size_t i = nodes_.size(); i-- > 0;) {
    Node& node = nodes_[i];
    const View x = i == 0 ? images : output(nodes_[i - 1]);
    const std::size_t turn = turns_[(nodes_.size() - i) % 2];
    const View dx = i == 0 ? View{} : workspace_.view(turn, x.shape, type_);
    node.call.stream = &stream;
    node.layer->backward(node.call, x, output(node), dy, dx);
    if (node.range.count > 0) ready(node.range);
    dy = dx;
  }
}

double Model::forward_flops() const {
  double total = 0;
  for (const LayerSummary& layer : layers_) total += 2 * layer.multiply_adds;
  return total;
}

double Model::training_flops() const {
  // Each layer again for its weights, and all but the first for its input.
  return 3 * forward_flops() - 2 * layers_.front().multiply_adds;
}

}  // namespace lockstep
