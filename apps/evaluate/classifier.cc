#include "apps/evaluate/classifier.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "apps/evaluate/predictions.h"

namespace lockstep {

Classifier::Classifier(Device& device, const ModelEntry& entry, Shape sample, int classes,
                       std::int64_t batch, Type type)
    : device_(device),
      model_(device, entry, sample, classes, batch, type, /*training=*/false),
      stream_(device.stream()),
      classes_(classes),
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
  device_.copy(*stream_, given_.get(), images_.get(), batch_bytes_);
  const View logits = model_.forward(*stream_, {given_.get(), model_.input(), model_.input_type()});
  const Memory host = device_.allocate(logits.bytes(), Place::host);
  device_.copy(*stream_, host.get(), logits.data, logits.bytes());
  stream_->synchronize();
  std::vector<double> result(count * classes_);
  dispatch(logits.type, [&]<class T>(T*) {
    const T* values = reinterpret_cast<const T*>(host.get());
    std::transform(values, values + result.size(), result.begin(),
                   [](T value) { return static_cast<double>(static_cast<float>(value)); });
  });
  for (auto row = result.begin(); row != result.end(); row += classes_)
    std::ranges::copy(probabilities_of({row, row + classes_}), row);
  return result;
}

}  // namespace lockstep
