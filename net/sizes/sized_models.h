// SizedModels: the model of a run, and its likes for the smaller images of the first epochs
// (image_stages.h). All have the same parameters.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "net/model.h"
#include "net/sizes/image_stages.h"

namespace lockstep {

/// A model for training until `epoch`.
struct SmallModel {
  double epoch;
  std::unique_ptr<Model> model;
};

/// Models of `entry` that lie in the memory of `full`, which outlives them and is planned for
/// samples of shape `sample`, for the images of `stages`. Throws the usage Error if the samples are
/// no larger images, or if a parameter depends on their size.
std::vector<SmallModel> make_small_models(Device& device, const ModelEntry& entry, Shape sample,
                                          int classes, const Model& full,
                                          const ImageStages& stages);

/// One thread. Slots are those of the models.
class SizedModels {
 public:
  /// `device` outlives it.
  SizedModels(Device& device, std::unique_ptr<Model> full, std::vector<SmallModel> small);

  /// The model for images of all pixels.
  const Model& full() const { return *full_; }
  /// Model::bind() of all.
  void bind(float* parameters, float* gradients);
  /// Model::time_layers() of all.
  void time_layers(LayerTimer* timer);

  /// Whether choose() would take another model.
  bool changes(double epoch) const { return !small_.empty() && epoch >= small_.front().epoch; }
  /// Takes the model of `epoch`, which never falls, and frees those before it. Their work must be
  /// done.
  void choose(double epoch);
  /// The operations of the run between two epochs, in those of an epoch on images of all pixels.
  double work(double from, double to) const;

  /// Those of the model that is chosen, on `images` of all pixels. backward() follows forward() on
  /// the same images and slot.
  View forward(Stream& stream, View images, const TrainingBatch& batch, int slot = 0);
  View logits_gradient(int slot) const { return now().logits_gradient(slot); }
  void backward(Stream& stream, View images, GradientListener& listener, int slot);

  std::size_t activation_bytes() const;
  std::size_t workspace_bytes() const;

 private:
  Model& now() const { return small_.empty() ? *full_ : *small_.front().model; }
  View shrunk(View images, int slot) const;

  std::unique_ptr<Model> full_;
  std::vector<SmallModel> small_;  ///< those of this epoch and later ones
  std::vector<Memory> shrunk_;     ///< images, by slot
  /// For each small model: a step costs that share of one on all pixels until this epoch.
  std::vector<std::pair<double, double>> costs_;
};

}  // namespace lockstep
