// Model: a chain of layers with its memory plan, and the registry of models.
#pragma once

#include <functional>
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

/// Options of a run and their values, as a config file has them: {"optimizer", "adam"}. The values
/// of a list are lines.
using Recipe = std::vector<std::pair<std::string, std::string>>;

/// One entry of the registry.
struct ModelEntry {
  static constexpr std::string_view kind = "model";
  std::string name;
  /// One line for --list.
  std::string about;
  /// The shape of its samples: 1x24x24x3.
  Shape sample;
  /// Whether it also accepts images of other sizes and numbers of channels.
  bool any_image = false;
  /// The layers for samples of this shape. The last one returns a logit for each class. It may be
  /// called several times. Throws Error.
  std::function<NamedLayers(Shape sample, int classes)> build;
  /// The default options of a run that trains it.
  Recipe recipe = {};
  /// Whether its samples are sequences of words: Type::i32.
  bool words = false;
  /// Overwrites initial values in the arena `parameters` by values that follow from the training
  /// set, bitwise identical on all ranks. A run calls it once, before its first step. Null: there
  /// are no such values.
  std::function<void(const Dataset& train, const Layout& layout, float* parameters)> prepare = {};
  /// The least height and width of the other images.
  std::int64_t smallest = 1;
  /// Whether the network is the user's own, and so is its recipe.
  bool own = false;

  bool fits(Shape other) const;
};

/// The registry, sorted by name: the files of apps/networks. Throws Error if one of them is wrong.
std::span<const ModelEntry> models();

/// Adds a model, before the first use of the registry: entries move. Throws Error if the name is
/// taken. One thread.
void register_model(ModelEntry entry);

/// Throws the usage error, which names the models that fit, unless `entry` accepts such samples.
void require_fit(const ModelEntry& entry, Shape sample);

/// A chain of layers planned for one batch size, one activation type, and training or inference. It
/// owns activations and workspace. Parameters and gradients are arenas of the caller. One thread.
class Model {
 public:
  /// `input`: a batch of samples. Throws Error if they do not fit (require_fit) or memory is short.
  /// `other`: outlives it, is used at other times, and lends its activations and workspace; null:
  /// none.
  Model(Device& device, const ModelEntry& entry, Shape input, int classes, Type type, bool training,
        const Model* other = nullptr);

  const Layout& layout() const { return layout_; }
  /// Applies the run's groups to the layout, before its first use. Throws the usage Error if a
  /// group matches no parameter.
  void group(std::span<const ParameterGroup> groups) { apply_groups(groups, layout_); }
  const std::vector<LayerSummary>& layers() const { return layers_; }
  Shape input() const { return input_; }
  Type type() const { return type_; }
  /// The type of a batch's samples: type(), or Type::i32 for words.
  Type input_type() const { return input_type_; }

  /// Binds the arenas of layout().count floats that forward reads and backward writes (null in
  /// inference). They must outlive their use and may be bound again at any time.
  void bind(float* parameters, float* gradients);

  /// Makes slots 0 .. slots-1: batches that are computed side by side, each in memory of its own.
  /// Slot 0 exists from the start. `other` has as many. Throws Error if memory is short.
  void make_slots(int slots);
  int slots() const { return static_cast<int>(slots_.size()); }

  /// The logits (batch x classes, of type()), valid until the slot's next forward. Without `batch`
  /// as in evaluation, with it as in training on its samples.
  View forward(Stream& stream, View images) { return run(stream, images, slot(0), nullptr); }
  View forward(Stream& stream, View images, const TrainingBatch& batch, int number = 0);
  /// The gradient of the logits, which the loss writes after forward on the same images.
  View logits_gradient(int number = 0) const { return logits(slot(number), logits_gradient_); }
  /// After forward in training: computes all parameters' gradients, and the statistics, from
  /// logits_gradient(). Reports each layer with parameters to `listener`, last layer first.
  void backward(Stream& stream, View images, GradientListener& listener, int number = 0);

  /// Reports each call of a layer to `timer`, which outlives the model or is replaced; null: to
  /// none.
  void time_layers(LayerTimer* timer) { timer_ = timer; }

  /// Operations of one call, two per multiply-add.
  double forward_flops() const;
  /// Operations of forward and backward.
  double training_flops() const;
  /// Without those of another model.
  std::size_t activation_bytes() const { return slots_.size() * slot(0).activations.own_bytes(); }
  std::size_t workspace_bytes() const { return slots_.size() * slot(0).workspace.own_bytes(); }

 private:
  struct Slot {
    /// The batch of the last forward in training.
    TrainingBatch batch;
    /// Values saved for backward, the logits and their gradient.
    Arena activations;
    /// Scratch memory of one call of the chain.
    Arena workspace;
  };

  const Slot& slot(int number) const { return *slots_[number]; }
  View run(Stream& stream, View images, const Slot& slot, const TrainingBatch* batch);
  LayerCall call(Stream& stream, const Slot& slot, const TrainingBatch* batch) const;
  View logits(const Slot& slot, std::size_t place) const {
    return {slot.activations.at(place), output_, type_};
  }
  void plan_parameters(std::vector<Parameter> parameters);

  Device& device_;
  Shape input_, output_;
  Type type_, input_type_;
  bool training_;
  const Model* lender_;  ///< of memory; null: none
  LayerTimer* timer_ = nullptr;
  Chain chain_;
  Layout layout_;
  std::vector<LayerSummary> layers_;
  /// Shapes and ranges of the parameters in the order of forward.
  std::vector<std::pair<Shape, Range>> places_;
  std::vector<View> weights_, gradients_;
  /// The sizes of a slot's memory, and the offsets within each slot.
  std::size_t saved_bytes_ = 0, scratch_bytes_ = 0;
  std::size_t saved_ = 0, scratch_ = 0, logits_ = 0, logits_gradient_ = 0;
  std::vector<std::unique_ptr<Slot>> slots_;
};

}  // namespace lockstep
