#include "apps/evaluate/classifier.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "apps/evaluate/predictions.h"

namespace lockstep {

Classifier::Classifier(Device& device, const ModelEntry& entry, Shape sample, int classes,
                       std::int64_t batch, Type type)
    : device_(device),
      model_(device, entry, sample.with_batch(batch), classes, type, /*training=*/false),
      stream_(device.stream()),
      sample_bytes_(sample.count() * size_of(model_.input_type())),
      batch_bytes_(batch * sample_bytes_),
      given_(device.allocate(batch_bytes_, Place::device)),
      images_(device.allocate(batch_bytes_, Place::host)) {
  std::memset(images_.get(), 0, batch_bytes_);  // the places beyond the samples are words too
}

void Classifier::load(Memory parameters) {
  parameters_ = std::move(parameters);
  model_.bind(reinterpret_cast<float*>(parameters_.get()), nullptr);
}

std::vector<double> Classifier::classify(std::int64_t count) {
  // The model always computes a whole batch. Only the first `count` rows are read.
  device_.copy(*stream_, given_.get(), images_.get(), batch_bytes_);
  View logits = model_.forward(*stream_, {given_.get(), model_.input(), model_.input_type()});
  const Memory host = device_.allocate(logits.bytes(), Place::host);
  device_.copy(*stream_, host.get(), logits.data, logits.bytes());
  stream_->synchronize();
  logits.data = host.get();
  logits.shape = logits.shape.with_batch(count);
  std::vector<double> result;
  for_each_row(logits, [&](std::span<const double> row) {
    std::ranges::copy(probabilities_of(row), std::back_inserter(result));
  });
  return result;
}

}  // namespace lockstep
