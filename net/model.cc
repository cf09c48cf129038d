#include "net/model.h"

#include <algorithm>

namespace lockstep {

namespace {

NamedLayers build(const ModelEntry& entry, Shape sample, int classes) {
  require_fit(entry, sample);
  return entry.build(sample, classes);
}

}  // namespace

Model::Model(Device& device, const ModelEntry& entry, Shape sample, int classes, std::int64_t batch,
             Type type, bool training)
    : input_(sample.with_batch(batch)),
      type_(type),
      input_type_(entry.words ? Type::i32 : type),
      training_(training),
      chain_(build(entry, sample, classes)) {
  Setup setup(device, type, training, /*input_gradient=*/false, /*name=*/"");
  output_ = chain_.setup(setup, input_);
  layers_ = std::move(setup.layers);
  const std::size_t bytes = static_cast<std::size_t>(output_.count()) * size_of(type);
  saved_ = activations_.reserve(setup.saved_bytes);
  logits_ = activations_.reserve(bytes);
  if (training) logits_gradient_ = activations_.reserve(bytes);
  scratch_ = workspace_.reserve(setup.scratch_bytes);
  activations_.allocate(device);
  workspace_.allocate(device);
  plan_parameters(std::move(setup.parameters));
}

void Model::plan_parameters(std::vector<Parameter> parameters) {
  // Layers last to first, the parameters of each in its own order.
  std::vector<Parameter*> order;
  for (Parameter& parameter : parameters) order.push_back(&parameter);
  std::stable_sort(order.begin(), order.end(),
                   [](const Parameter* a, const Parameter* b) { return a->layer > b->layer; });
  for (Parameter* parameter : order) {
    const bool fresh =
        layout_.parameters.empty() || layout_.parameters.back().layer != parameter->layer;
    if (fresh) layout_.layers.push_back({layout_.count, 0});
    parameter->range = {layout_.count, parameter->shape.count()};
    layout_.count = Layout::aligned(parameter->range.end());
    layout_.layers.back().count = layout_.count - layout_.layers.back().begin;
    layout_.parameters.push_back(*parameter);
  }
  for (const Parameter& parameter : parameters)
    places_.emplace_back(parameter.shape, parameter.range);
}

void Model::bind(float* parameters, float* gradients) {
  weights_.clear();
  gradients_.clear();
  gradient_arena_ = gradients;
  for (const auto& [shape, range] : places_) {
    weights_.push_back({parameters + range.begin, shape, Type::f32});
    if (gradients != nullptr) gradients_.push_back({gradients + range.begin, shape, Type::f32});
  }
}

LayerCall Model::call(Stream& stream, const TrainingBatch* batch) const {
  LayerCall call;
  call.stream = &stream;
  call.weights = weights_;
  call.gradients = gradients_;
  call.saved = static_cast<std::byte*>(activations_.at(saved_));
  call.scratch = static_cast<std::byte*>(workspace_.at(scratch_));
  call.batch = batch;
  return call;
}

View Model::run(Stream& stream, View images, const TrainingBatch* batch) {
  expect(images.shape == input_ && images.type == input_type_,
         "a batch has another shape or type than planned");
  LayerCall all = call(stream, batch);
  chain_.forward(all, images, logits(logits_));
  return logits(logits_);
}

View Model::forward(Stream& stream, View images, const TrainingBatch& batch) {
  expect(training_, "a model planned for inference does not train");
  batch_ = batch;
  return run(stream, images, &batch_);
}

void Model::backward(Stream& stream, View images, const Ready& ready) {
  expect(training_, "a model planned for inference has no backward");
  const std::function<void(std::span<const View>)> tell = [&](std::span<const View> gradients) {
    const auto place = [&](const View& view) { return view.as<float>() - gradient_arena_; };
    const std::int64_t begin = place(gradients.front()),
                       end = Layout::aligned(place(gradients.back()) + gradients.back().count());
    ready({begin, end - begin});
  };
  LayerCall all = call(stream, &batch_);
  all.ready = &tell;
  chain_.backward(all, images, logits(logits_), logits_gradient(), {});
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
