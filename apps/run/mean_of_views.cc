#include "apps/run/mean_of_views.h"

#include <algorithm>
#include <cstring>

#include "apps/run/test_views.h"

namespace lockstep {

MeanOfViews::MeanOfViews(Device& device, Model& model, int classes)
    : model_(model), classes_(classes) {
  const Shape input = model.input();
  const std::size_t images = input.count() * size_of(model.input_type()),
                    logits = input[0] * classes_ * sizeof(float);
  seen_ = arena_.reserve(images);
  first_ = arena_.reserve(logits);
  mean_ = arena_.reserve(logits);
  if (device.traits().memory_is_host) waiting_ = arena_.reserve(images);
  arena_.allocate(device);
}

void MeanOfViews::add_views(Stream& stream, View images, std::size_t begin, std::size_t end,
                            View before, View sums) {
  const View seen = arena_.view(seen_, images.shape, images.type);
  for (std::size_t i = begin; i < end; ++i) {
    see(stream, images, kTestViews[i], seen);
    add_weighted(stream, model_.forward(stream, seen), kTestViews[i].weight,
                 i == begin ? before : sums, sums);
  }
}

View MeanOfViews::of_batch(Stream& stream, View images) {
  const View first = logits(first_), mean = logits(mean_);
  add_views(stream, images, 0, kFirstViews, {}, first);
  add_views(stream, images, kFirstViews, kTestViews.size(), first, mean);
  choose_certain(stream, first, mean);
  return mean;
}

void MeanOfViews::clear() {
  samples_.clear();
  means_.clear();
  uncertain_.clear();
}

void MeanOfViews::add(Stream& stream, View images, const std::vector<std::int64_t>& samples) {
  const std::size_t image_bytes = images.shape.row() * size_of(images.type);
  const View first = logits(first_);
  add_views(stream, images, 0, kFirstViews, {}, first);
  stream.synchronize();
  auto* const waiting = static_cast<std::byte*>(arena_.at(waiting_));
  const auto* image = static_cast<const std::byte*>(images.data);
  const float* sums = first.as<float>();
  auto* const mean = logits(mean_).as<float>();
  for (const std::int64_t sample : samples) {
    for (std::int64_t c = 0; c < classes_; ++c) means_.push_back(kFirstFactor * sums[c]);
    if (!is_certain(sums, classes_)) {
      std::copy_n(sums, classes_, mean + std::ssize(uncertain_) * classes_);
      std::memcpy(waiting + uncertain_.size() * image_bytes, image, image_bytes);
      uncertain_.push_back(std::ssize(samples_));
    }
    samples_.push_back(sample);
    if (std::ssize(uncertain_) == images.shape[0]) finish_waiting(stream);
    image += image_bytes;
    sums += classes_;
  }
}

void MeanOfViews::finish_waiting(Stream& stream) {
  if (uncertain_.empty()) return;
  const View mean = logits(mean_);
  add_views(stream, arena_.view(waiting_, model_.input(), model_.input_type()), kFirstViews,
            kTestViews.size(), mean, mean);
  stream.synchronize();
  const float* row = mean.as<float>();
  for (const std::int64_t i : uncertain_) {
    std::copy_n(row, classes_, &means_[i * classes_]);
    row += classes_;
  }
  uncertain_.clear();
}

View MeanOfViews::finish(Stream& stream) {
  finish_waiting(stream);
  return {means_.data(), {std::ssize(samples_), classes_}, Type::f32};
}

}  // namespace lockstep
