// Layers as ONNX operators: one function for each kind.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "net/export/export.h"
#include "net/export/onnx_graph.h"

namespace lockstep {

/// A tensor of the graph. Lockstep's tensors have their channels last; ONNX convolutions and pools
/// need them first, so a tensor may be N, C, H, W or N, C, L in the file.
struct OnnxValue {
  std::string name;
  Shape shape;  ///< Lockstep's: channels last, of one sample
  bool channels_first = false;
};

/// `value` in the other order, or as it is if it has that order already.
OnnxValue channels_first(OnnxGraph& graph, const OnnxValue& value);
OnnxValue channels_last(OnnxGraph& graph, const OnnxValue& value);

/// One layer while it is exported.
struct OnnxLayer {
  const TrainedNetwork& network;
  int index;  ///< of the layer in network.layers
  std::vector<OnnxValue> inputs;
  OnnxGraph& graph;

  const LayerSummary& summary() const { return network.layers[index]; }
  /// LayerSummary::numbers; 0 if there is no such number.
  float number(const char* name) const;
  std::int64_t integer(const char* name) const;
  /// The layer's parameter "weights", "biases", ...; null if it has none of this name.
  const Parameter* find(const std::string& own_name) const;
  /// Those of the parameters that the layer has, as constants in PyTorch's order, by PyTorch's
  /// names.
  std::vector<std::string> constants(std::initializer_list<const char*> own_names) const;
};

/// The value that the layer returns. Throws Error if its kind has no ONNX form.
OnnxValue onnx_layer(OnnxLayer& layer);

}  // namespace lockstep
