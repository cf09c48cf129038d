#include "net/sizes/sized_models.h"

#include <algorithm>
#include <cmath>

#include "net/sizes/shrink.h"
#include "src/base/check.h"

namespace lockstep {
namespace {

bool same_parameters(const Layout& a, const Layout& b) {
  const auto same = [](const Parameter& one, const Parameter& other) {
    return one.name == other.name && one.shape == other.shape && one.range == other.range;
  };
  return std::ranges::equal(a.parameters, b.parameters, same);
}

std::unique_ptr<Model> make_small(Device& device, const ModelEntry& entry, Shape input, int classes,
                                  const Model& full) {
  try {
    return std::make_unique<Model>(device, entry, input, classes, full.type(), /*training=*/true,
                                   &full);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& error) {
    fail_usage("--small-images: images of {} x {} pixels are too small for {}: {}", input[2],
               input[1], entry.name, error.what());
  }
}

}  // namespace

std::vector<SmallModel> make_small_models(Device& device, const ModelEntry& entry, Shape sample,
                                          int classes, const Model& full,
                                          const ImageStages& stages) {
  std::vector<SmallModel> models;
  if (stages.empty()) return models;
  if (sample.rank() != 4)
    fail_usage("--small-images needs images, and this data set has none. Omit it.");
  // The layers decide which sizes fit, and make_small() names the option in their errors. The
  // limits of the entry are for the images of a data set.
  ModelEntry any = entry;
  any.any_image = true;
  any.smallest = 1;
  for (const auto& [height, epoch] : stages) {
    if (height >= sample[1]) {
      fail_usage("--small-images {}: the images have {} x {} pixels. Use a smaller height.", height,
                 sample[2], sample[1]);
    }
    const auto width = std::max<std::int64_t>(
        1, std::llround(static_cast<double>(sample[2] * height) / static_cast<double>(sample[1])));
    models.push_back({epoch, make_small(device, any, {full.input()[0], height, width, sample[3]},
                                        classes, full)});
    // The models share the arenas of parameters, so that each parameter must have the same place in
    // all.
    if (!same_parameters(models.back().model->layout(), full.layout())) {
      fail_usage(
          "--small-images: the parameters of {} depend on the size of its images. Omit it, or use "
          "another --model.",
          entry.name);
    }
  }
  return models;
}

SizedModels::SizedModels(Device& device, std::unique_ptr<Model> full, std::vector<SmallModel> small)
    : full_(std::move(full)), small_(std::move(small)) {
  if (small_.empty()) return;
  for (const auto& [epoch, model] : small_)
    costs_.emplace_back(epoch, model->training_flops() / full_->training_flops());
  // Heights rise, so that the last small model needs the most memory. The others use its beginning.
  const Model& largest = *small_.back().model;
  const std::size_t bytes = largest.input().count() * size_of(largest.type());
  for (int slot = 0; slot < full_->slots(); ++slot)
    shrunk_.push_back(device.allocate(bytes, Place::device));
}

void SizedModels::bind(float* parameters, float* gradients) {
  full_->bind(parameters, gradients);
  for (const SmallModel& small : small_) small.model->bind(parameters, gradients);
}

void SizedModels::time_layers(LayerTimer* timer) {
  full_->time_layers(timer);
  for (const SmallModel& small : small_) small.model->time_layers(timer);
}

void SizedModels::choose(double epoch) {
  while (changes(epoch)) small_.erase(small_.begin());
  if (small_.empty()) shrunk_.clear();
}

double SizedModels::work(double from, double to) const {
  double sum = 0;
  for (const auto& [epoch, cost] : costs_) {
    // Stages that lie before `from` or after `to` have an empty part.
    const double end = std::clamp(epoch, from, to);
    sum += (end - from) * cost;
    from = end;
  }
  return sum + to - from;
}

View SizedModels::shrunk(View images, int slot) const {
  const Model& model = now();
  if (&model == full_.get()) return images;
  return {shrunk_[slot].get(), model.input(), model.type()};
}

View SizedModels::forward(Stream& stream, View images, const TrainingBatch& batch, int slot) {
  const View seen = shrunk(images, slot);
  if (seen.data != images.data) shrink(stream, images, seen);
  return now().forward(stream, seen, batch, slot);
}

void SizedModels::backward(Stream& stream, View images, GradientListener& listener, int slot) {
  now().backward(stream, shrunk(images, slot), listener, slot);
}

std::size_t SizedModels::activation_bytes() const {
  std::size_t bytes = full_->activation_bytes();
  for (const SmallModel& small : small_) bytes += small.model->activation_bytes();
  for (std::size_t slot = 0; slot < shrunk_.size(); ++slot)
    bytes += small_.back().model->input().count() * size_of(full_->type());
  return bytes;
}

std::size_t SizedModels::workspace_bytes() const {
  std::size_t bytes = full_->workspace_bytes();
  for (const SmallModel& small : small_) bytes += small.model->workspace_bytes();
  return bytes;
}

}  // namespace lockstep
