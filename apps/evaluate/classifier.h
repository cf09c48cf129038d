// Classifier: the class probabilities of samples by the weights of a checkpoint.
#pragma once

#include <vector>

#include "net/model.h"
#include "src/device/device.h"

namespace lockstep {

/// An inference model with weights and a batch of its own. Owner: the caller, who keeps `device`
/// alive. One thread.
class Classifier {
 public:
  /// Samples of shape `sample`, `batch` at a time. Throws Error if memory is short.
  Classifier(Device& device, const ModelEntry& entry, Shape sample, int classes, std::int64_t batch,
             Type type);

  const Model& model() const { return model_; }
  /// Takes model().layout().count floats in memory of the device. Once, before classify().
  void load(Memory parameters);
  /// The memory of sample `i` of the batch, of model().input_type(), on the host.
  std::byte* sample(std::int64_t i) { return images_.get() + i * sample_bytes_; }
  /// The probabilities of the first `count` samples of the batch: count x classes.
  std::vector<double> classify(std::int64_t count);

 private:
  Device& device_;
  Model model_;
  std::unique_ptr<Stream> stream_;
  std::size_t sample_bytes_, batch_bytes_;
  Memory parameters_, given_, images_;  ///< the first two on the device
};

}  // namespace lockstep
