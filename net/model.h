// Model: a chain of layers with its memory plan, and the menu of models.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/layer.h"
#include "src/arena.h"

namespace lockstep {

using NamedLayers = std::vector<std::pair<std::string, std::unique_ptr<Layer>>>;

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

  bool fits(Shape other) const;
};

/// The menu, net/models.cc: one line per file of net/models.
std::span<const ModelEntry> models();

/// Throws the usage error with both shapes and the models that fit unless `entry` takes samples of
/// this shape.
void require_fit(const ModelEntry& entry, Shape sample);

/// One layer as the memory plan and people see it.
struct LayerSummary {
  std::string name, implementation;
  Shape output;
  std::int64_t parameters = 0;
  double multiply_adds = 0;  ///< forward, whole batch
};

/// A chain of layers planned for one batch size, one activation type, and training or inference.
/// Holds activations and workspace, never parameters or gradients: those arenas are bound from
/// outside. One thread.
class Model {
 public:
  /// Told that the gradients of `range` (one layer's, in arena order) are written.
  using Ready = std::function<void(Range range)>;

  /// `batch` samples of shape `sample` at a time. Throws Error if they do not fit (require_fit) or
  /// memory is short.
  Model(Device& device, const ModelEntry& entry, Shape sample, int classes, std::int64_t batch,
        Type type, bool training);

  const Layout& layout() const { return layout_; }
  const std::vector<LayerSummary>& layers() const { return layers_; }
  Shape input() const { return input_; }
  Type type() const { return type_; }

  /// The arenas of layout().count floats that forward reads and backward writes (null in
  /// inference). They must outlive their use and may be bound anew at any time.
  void bind(float* parameters, float* gradients);

  /// The logits (batch x classes, of type()), valid until the next forward.
  View forward(Stream& stream, View images);
  /// After forward on the same images: where the loss writes the gradient of the logits.
  View logits_gradient();
  /// From logits_gradient() to all parameters' gradients; calls `ready` for each layer with
  /// parameters, last layer first.
  void backward(Stream& stream, View images, const Ready& ready);

  double forward_flops() const;   ///< of one call, two per multiply-add
  double training_flops() const;  ///< forward + backward
  std::size_t activation_bytes() const { return activations_.bytes(); }
  std::size_t workspace_bytes() const { return workspace_.bytes(); }

 private:
  struct Node {
    std::unique_ptr<Layer> layer;
    std::vector<Parameter> parameters;
    Range range;  ///< of all its parameters in the arenas; empty if it has none
    Shape output;
    std::size_t activation = 0, saved = 0;  ///< places in activations_
    LayerCall call;
  };
  View output(const Node& node) const {
    return activations_.view(node.activation, node.output, type_);
  }
  void plan_parameters();

  Shape input_;
  Type type_;
  bool training_;
  std::vector<Node> nodes_;  ///< in forward order
  Layout layout_;
  std::vector<LayerSummary> layers_;
  Arena activations_;  ///< (A) saved for backward; in inference two that take turns
  Arena workspace_;    ///< (W) scratch of one call, and the two gradients that take turns
  std::size_t turns_[2] = {0, 0};  ///< places in workspace_
  std::size_t scratch_ = 0;
};

}  // namespace lockstep
