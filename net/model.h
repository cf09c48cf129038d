// Model: a chain of layers with its memory plan, and the menu of models.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/chain.h"
#include "net/parameter_groups.h"
#include "src/device/arena.h"

namespace lockstep {

class Dataset;

/// One row of the menu.
struct ModelEntry {
  static constexpr std::string_view kind = "model";
  std::string_view name;
  std::string_view about;
  /// The samples that it was designed for: 1x24x24x3.
  Shape sample;
  /// It takes images of any other size and number of channels, too.
  bool any_image;
  NamedLayers (*build)(Shape sample, int classes);
  /// What a run of it is where nobody says otherwise, as options of the training programs:
  /// "optimizer = adam, batch = 1024".
  std::string_view recipe = {};
  /// Its samples are sequences of words: Type::i32.
  bool words = false;
  /// Overwrites initial values in the arena `parameters` by those that follow from the training
  /// set, the same bits whoever asks; null: none do. A run does so once, before its first step:
  /// from then on they are in its checkpoints.
  void (*prepare)(const Dataset& train, const Layout& layout, float* parameters) = nullptr;

  bool fits(Shape other) const;
};

/// The menu, net/models.cc: one line per file of net/models.
std::span<const ModelEntry> models();

/// Throws the usage error with both shapes and the models that fit unless `entry` takes samples of
/// this shape.
void require_fit(const ModelEntry& entry, Shape sample);

/// A chain of layers planned for one batch size, one activation type, and training or inference.
/// Holds activations and workspace, never parameters or gradients: those arenas are bound from
/// outside. One thread.
class Model {
 public:
  /// `batch` samples of shape `sample` at a time. Throws Error if they do not fit (require_fit) or
  /// memory is short.
  Model(Device& device, const ModelEntry& entry, Shape sample, int classes, std::int64_t batch,
        Type type, bool training);

  const Layout& layout() const { return layout_; }
  /// Before the layout is used: what a run asks of some parameters. Throws the usage Error where a
  /// group is nobody's.
  void group(std::span<const ParameterGroup> groups) { apply_groups(groups, layout_); }
  const std::vector<LayerSummary>& layers() const { return layers_; }
  Shape input() const { return input_; }
  Type type() const { return type_; }
  /// Of a batch: type(), but for words.
  Type input_type() const { return input_type_; }

  /// The arenas of layout().count floats that forward reads and backward writes (null in
  /// inference). They must outlive their use and may be bound anew at any time.
  void bind(float* parameters, float* gradients);

  /// Makes lanes 0 .. lanes-1: batches that are under way side by side, each with memory of its
  /// own. Lane 0 is there from the start. Throws Error if memory is short.
  void make_lanes(int lanes);

  /// The logits (batch x classes, of type()), valid until the lane's next forward: as in
  /// evaluation, or as in training on the samples of `batch`.
  View forward(Stream& stream, View images) { return run(stream, images, lane(0), nullptr); }
  View forward(Stream& stream, View images, const TrainingBatch& batch, int number = 0);
  /// After forward on the same images: where the loss writes the gradient of the logits.
  View logits_gradient(int number = 0) const { return logits(lane(number), logits_gradient_); }
  /// After forward in training: from logits_gradient() to all parameters' gradients, and to the
  /// statistics. Tells `listener` of each layer with parameters, last layer first.
  void backward(Stream& stream, View images, GradientListener& listener, int number = 0);

  /// Of one call, two per multiply-add.
  double forward_flops() const;
  /// Forward and backward.
  double training_flops() const;
  std::size_t activation_bytes() const { return lanes_.size() * lane(0).activations.bytes(); }
  std::size_t workspace_bytes() const { return lanes_.size() * lane(0).workspace.bytes(); }

 private:
  struct Lane {
    /// Of the last forward in training.
    TrainingBatch batch;
    /// What is saved for backward, the logits and their gradient.
    Arena activations;
    /// Scratch of one call of the chain.
    Arena workspace;
  };

  const Lane& lane(int number) const { return *lanes_[number]; }
  View run(Stream& stream, View images, const Lane& lane, const TrainingBatch* batch);
  LayerCall call(Stream& stream, const Lane& lane, const TrainingBatch* batch) const;
  View logits(const Lane& lane, std::size_t place) const {
    return {lane.activations.at(place), output_, type_};
  }
  void plan_parameters(std::vector<Parameter> parameters);

  Device& device_;
  Shape input_, output_;
  Type type_, input_type_;
  bool training_;
  Chain chain_;
  Layout layout_;
  std::vector<LayerSummary> layers_;
  /// In the order of forward, as layers see them: shape and place.
  std::vector<std::pair<Shape, Range>> places_;
  std::vector<View> weights_, gradients_;
  /// What a batch takes, and its places in every lane.
  std::size_t saved_bytes_ = 0, scratch_bytes_ = 0;
  std::size_t saved_ = 0, scratch_ = 0, logits_ = 0, logits_gradient_ = 0;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace lockstep
