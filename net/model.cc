// The arenas have the order of backward, and the chain that of forward. plan_parameters() sorts the
// parameters for the arenas, and places_ keeps the order in which a call lists its weights.
#include "net/model.h"

#include <algorithm>

#include "net/pytorch_names.h"

namespace lockstep {

static NamedLayers build(const ModelEntry& entry, Shape sample, int classes) {
  require_fit(entry, sample);
  return entry.build(sample, classes);
}

Model::Model(Device& device, const ModelEntry& entry, Shape input, int classes, Type type,
             bool training, const Model* other)
    : device_(device),
      input_(input),
      type_(type),
      input_type_(entry.words ? Type::i32 : type),
      training_(training),
      lender_(other),
      chain_(build(entry, input.with_batch(1), classes)) {
  Setup setup(device, type, training, /*input_gradient=*/false, /*name=*/"");
  output_ = chain_.setup(setup, input_);
  layers_ = std::move(setup.layers);
  saved_bytes_ = setup.saved_bytes;
  scratch_bytes_ = setup.scratch_bytes;
  make_slots(1);
  plan_parameters(std::move(setup.parameters));
}

void Model::make_slots(int slots) {
  const std::size_t bytes = output_.count() * size_of(type_);
  while (slots_.size() < static_cast<std::size_t>(slots)) {
    // Each slot requests the same sizes in the same order, so that the offsets are valid in all of
    // them.
    Slot& slot = *slots_.emplace_back(std::make_unique<Slot>());
    saved_ = slot.activations.reserve(saved_bytes_);
    logits_ = slot.activations.reserve(bytes);
    if (training_) logits_gradient_ = slot.activations.reserve(bytes);
    scratch_ = slot.workspace.reserve(scratch_bytes_);
    const Slot* const other = lender_ ? lender_->slots_.at(slots_.size() - 1).get() : nullptr;
    if (!other || !slot.activations.share(other->activations)) slot.activations.allocate(device_);
    if (!other || !slot.workspace.share(other->workspace)) slot.workspace.allocate(device_);
  }
}

void Model::plan_parameters(std::vector<Parameter> parameters) {
  require_own_names(parameters);
  // Layers last to first, the parameters of each in its own order.
  std::vector<Parameter*> order;
  for (Parameter& parameter : parameters) order.push_back(&parameter);
  std::ranges::stable_sort(order, std::ranges::greater{}, &Parameter::layer);
  for (Parameter* parameter : order) {
    const bool fresh =
        layout_.parameters.empty() || layout_.parameters.back().layer != parameter->layer;
    if (fresh) layout_.layers.push_back({layout_.count, 0});
    parameter->range = {layout_.count, parameter->shape.count()};
    layout_.count = Layout::aligned(parameter->range.end());
    // The gap behind a parameter belongs to its layer. The ranges of layers then follow each other
    // without gaps, and a bucket of several layers is one range.
    layout_.layers.back().count = layout_.count - layout_.layers.back().begin;
    layout_.parameters.push_back(*parameter);
  }
  for (const Parameter& parameter : parameters)
    places_.emplace_back(parameter.shape, parameter.range);
}

void Model::bind(float* parameters, float* gradients) {
  weights_.clear();
  gradients_.clear();
  for (const auto& [shape, range] : places_) {
    weights_.push_back({parameters + range.begin, shape, Type::f32});
    if (gradients != nullptr) gradients_.push_back({gradients + range.begin, shape, Type::f32});
  }
}

LayerCall Model::call(Stream& stream, const Slot& slot, const TrainingBatch* batch) const {
  LayerCall call;
  call.stream = &stream;
  call.weights = weights_;
  call.gradients = gradients_;
  call.saved = static_cast<std::byte*>(slot.activations.at(saved_));
  call.scratch = static_cast<std::byte*>(slot.workspace.at(scratch_));
  call.batch = batch;
  call.timer = timer_;
  return call;
}

View Model::run(Stream& stream, View images, const Slot& slot, const TrainingBatch* batch) {
  expect(images.shape == input_ && images.type == input_type_,
         "a batch has another shape or type than planned");
  LayerCall all = call(stream, slot, batch);
  chain_.forward(all, images, logits(slot, logits_));
  return logits(slot, logits_);
}

View Model::forward(Stream& stream, View images, const TrainingBatch& batch, int number) {
  expect(training_, "a model planned for inference does not train");
  Slot& slot = *slots_[number];
  slot.batch = batch;
  return run(stream, images, slot, &slot.batch);
}

void Model::backward(Stream& stream, View images, GradientListener& listener, int number) {
  expect(training_, "a model planned for inference has no backward");
  const Slot& its = slot(number);
  LayerCall all = call(stream, its, &its.batch);
  all.listener = &listener;
  chain_.backward(all, images, logits(its, logits_), logits_gradient(number), {});
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
