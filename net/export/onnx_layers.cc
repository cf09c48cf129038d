// Convolutions and pools of ONNX need channels first, and all other layers of Lockstep have them
// last. A tensor keeps the order of the operator that made it, and elementwise operators take
// either. So a transposition is added only where a layer needs the other order, and none within a
// row of convolutions.
#include "net/export/onnx_layers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "net/pytorch_names.h"
#include "src/base/check.h"

namespace lockstep {
namespace {

using Integers = OnnxGraph::Integers;

std::int64_t spatial_axes(const OnnxValue& value) { return value.shape.rank() - 2; }

/// The layer's first input, with channels first or last.
OnnxValue first(OnnxLayer& l) { return channels_first(l.graph, l.inputs[0]); }
OnnxValue last(OnnxLayer& l) { return channels_last(l.graph, l.inputs[0]); }

/// The result of the layer, in the order of `like`. A tensor of two extents has only one order.
OnnxValue result(const OnnxLayer& l, const std::string& name, const OnnxValue& like) {
  return {name, l.summary().output, like.channels_first && l.summary().output.rank() > 2};
}

/// y of the activation `kind` of x.
std::string unit(OnnxGraph& graph, std::string_view kind, const std::string& x) {
  if (kind == "gelu") {
    const std::string scaled = graph.node("Div", {x, graph.constant(std::sqrt(2.0f))}),
                      erf = graph.node("Erf", {scaled}),
                      step = graph.node("Add", {erf, graph.constant(1)});
    return graph.node("Mul", {graph.node("Mul", {x, step}), graph.constant(0.5f)});
  }
  if (kind == "silu") return graph.node("Mul", {x, graph.node("Sigmoid", {x})});
  if (kind == "hard_sigmoid")
    return graph.node("HardSigmoid", {x}, {{"alpha", 1.0f / 6}, {"beta", 0.5f}});
  return graph.node(kind == "relu" ? "Relu" : "HardSwish", {x});
}

/// The activation that is part of a layer.
std::string activated(const OnnxLayer& l, const std::string& name) {
  for (const char* kind : {"relu", "gelu", "hard_swish"})
    if (l.number(kind) > 0) return unit(l.graph, kind, name);
  return name;
}

/// The result of the layer's one operator on `x`, whose further inputs are `more`.
OnnxValue applied(const OnnxLayer& l, const OnnxValue& x, const char* operation,
                  const std::vector<std::string>& more = {},
                  const OnnxGraph::Attributes& attributes = {}) {
  std::vector<std::string> inputs{x.name};
  inputs.insert(inputs.end(), more.begin(), more.end());
  return result(l, activated(l, l.graph.node(operation, inputs, attributes)), x);
}

OnnxValue unit_layer(OnnxLayer& l) {
  const OnnxValue& x = l.inputs[0];
  return result(l, unit(l.graph, l.summary().kind, x.name), x);
}

OnnxValue convolution_layer(OnnxLayer& l) {
  const OnnxValue x = first(l);
  const std::int64_t axes = spatial_axes(x);
  return applied(l, x, "Conv", l.constants({"weights", "biases"}),
                 {{"strides", Integers(axes, l.integer("stride"))},
                  {"pads", Integers(2 * axes, l.integer("pad"))},
                  {"dilations", Integers(axes, l.integer("dilation"))},
                  {"group", l.integer("groups")}});
}

/// Over all features of a sample, or over the last extent.
OnnxValue dense_layer(OnnxLayer& l) {
  OnnxValue x = last(l);
  if (l.summary().output.rank() == 2) {
    if (x.shape.rank() > 2) x.name = l.graph.node("Flatten", {x.name}, {{"axis", 1}});
    return applied(l, x, "Gemm", l.constants({"weights", "biases"}), {{"transB", 1}});
  }
  // Gemm takes only matrices, and MatMul cannot transpose an operand. So the file has the weights
  // transposed.
  const Parameter& weights = *l.find("weights");
  const std::int64_t rows = weights.shape[0], columns = weights.shape[1];
  const std::span<const float> values = l.network.values(weights);
  std::vector<float> transposed(values.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column)
      transposed[column * rows + row] = values[row * columns + column];
  }
  std::string y = l.graph.node(
      "MatMul", {x.name, l.graph.constant("weight_transposed", {columns, rows}, transposed)});
  for (const std::string& biases : l.constants({"biases"})) y = l.graph.node("Add", {y, biases});
  return result(l, activated(l, y), x);
}

template <bool kMax>
OnnxValue pool_layer(OnnxLayer& l) {
  const OnnxValue x = first(l);
  const std::int64_t axes = spatial_axes(x);
  Integers pads{l.integer("pad_left"), l.integer("pad_right")};
  // ONNX lists the beginnings of all axes, then the ends.
  if (axes == 2) pads = {l.integer("pad_top"), pads[0], l.integer("pad_bottom"), pads[1]};
  return applied(l, x, kMax ? "MaxPool" : "AveragePool", {},
                 {{"kernel_shape", Integers(axes, l.integer("kernel"))},
                  {"strides", Integers(axes, l.integer("stride"))},
                  {"pads", pads}});
}

template <bool kMax>
OnnxValue global_pool_layer(OnnxLayer& l) {
  const OnnxValue x = first(l);
  std::string y = l.graph.node(kMax ? "GlobalMaxPool" : "GlobalAveragePool", {x.name});
  if (l.summary().output.rank() == 2) y = l.graph.node("Flatten", {y}, {{"axis", 1}});
  return result(l, y, x);
}

OnnxValue batch_norm_layer(OnnxLayer& l) {
  std::vector<std::string> more = l.constants({"gamma", "beta", "mean", "variance"});
  if (more.size() == 3) {  // without gamma
    const std::int64_t channels = l.summary().output.back();
    const std::vector<float> ones(channels, 1);
    more.insert(more.begin(), l.graph.constant("ones", {channels}, ones));
  }
  return applied(l, first(l), "BatchNormalization", more, {{"epsilon", l.number("epsilon")}});
}

OnnxValue layer_norm_layer(OnnxLayer& l) {
  return applied(l, last(l), "LayerNormalization", l.constants({"gamma", "beta"}),
                 {{"axis", -1}, {"epsilon", l.number("epsilon")}});
}

OnnxValue response_norm_layer(OnnxLayer& l) {
  // ONNX divides alpha by the size of the window, and Lockstep does not.
  const std::int64_t size = 2 * l.integer("radius") + 1;
  return applied(l, first(l), "LRN", {},
                 {{"size", size},
                  {"bias", l.number("bias")},
                  {"alpha", l.number("alpha") * static_cast<float>(size)},
                  {"beta", l.number("beta")}});
}

OnnxValue rescale_layer(OnnxLayer& l) {
  const OnnxValue& x = l.inputs[0];
  std::string y = l.graph.node("Mul", {x.name, l.graph.constant(l.number("factor"))});
  const float offset = l.number("offset");
  if (offset != 0) y = l.graph.node("Add", {y, l.graph.constant(offset)});
  return result(l, y, x);
}

OnnxValue flatten_layer(OnnxLayer& l) { return applied(l, last(l), "Flatten", {}, {{"axis", 1}}); }

OnnxValue softmax_layer(OnnxLayer& l) { return applied(l, last(l), "Softmax", {}, {{"axis", -1}}); }

OnnxValue embedding_layer(OnnxLayer& l) {
  const OnnxValue& words = l.inputs[0];
  const std::string vectors = l.constants({"vectors"})[0];
  return result(l, l.graph.node("Gather", {vectors, words.name}, {{"axis", 0}}), words);
}

/// Dropout and stochastic depth do nothing after training.
OnnxValue same_layer(OnnxLayer& l) { return l.inputs[0]; }

OnnxValue subsample_layer(OnnxLayer& l) {
  const OnnxValue x = first(l);
  // The end of an axis of any size, by the definition of Slice.
  constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
  const std::int64_t stride = l.integer("stride"),
                     added = l.summary().output.back() - x.shape.back();
  std::string y = l.graph.node(
      "Slice", {x.name, l.graph.integers("starts", {0, 0}), l.graph.integers("ends", {kEnd, kEnd}),
                l.graph.integers("axes", {2, 3}), l.graph.integers("steps", {stride, stride})});
  if (added > 0)
    y = l.graph.node("Pad", {y, l.graph.integers("pads", {0, 0, 0, 0, 0, added, 0, 0})});
  return result(l, y, x);
}

OnnxValue sum_layer(OnnxLayer& l) {
  const OnnxValue& a = l.inputs[0];
  const OnnxValue b =
      a.channels_first ? channels_first(l.graph, l.inputs[1]) : channels_last(l.graph, l.inputs[1]);
  return applied(l, a, "Add", {b.name});
}

/// x times the factors of each channel and sample.
OnnxValue channel_scale_layer(OnnxLayer& l) {
  const OnnxValue x = first(l);
  return applied(l, x, "Mul", {channels_first(l.graph, l.inputs[1]).name});
}

OnnxValue layer_scale_layer(OnnxLayer& l) {
  const OnnxValue& x = l.inputs[0];
  const std::span<const float> values = l.network.values(*l.find("values"));
  Integers dims{std::ssize(values)};
  if (x.channels_first) dims.resize(x.shape.rank() - 1, 1);
  return applied(l, x, "Mul", {l.graph.constant("values", dims, values)});
}

/// A row of zeros comes in front of each sample, and the token is added to it. So nothing depends
/// on the size of the batch.
OnnxValue class_token_layer(OnnxLayer& l) {
  OnnxValue x = last(l);
  const std::int64_t channels = x.shape.back(), length = l.summary().output[1];
  if (x.shape.rank() == 4)
    x.name = l.graph.node("Reshape", {x.name, l.graph.integers("shape", {0, -1, channels})});
  const std::span<const float> token = l.network.values(*l.find("values"));
  std::vector<float> rows(length * channels);
  std::copy(token.begin(), token.end(), rows.begin());
  x.name = l.graph.node("Pad", {x.name, l.graph.integers("pads", {0, 1, 0, 0, 0, 0})});
  return applied(l, x, "Add", {l.graph.constant("token", {1, length, channels}, rows)});
}

OnnxValue position_embedding_layer(OnnxLayer& l) {
  return applied(l, last(l), "Add", l.constants({"values"}));
}

OnnxValue first_token_layer(OnnxLayer& l) {
  const OnnxValue x = last(l);
  const std::string tokens =
      l.graph.node("Gather", {x.name, l.graph.integers("first", {0})}, {{"axis", 1}});
  return result(l, l.graph.node("Flatten", {tokens}, {{"axis", 1}}), x);
}

OnnxValue attention_layer(OnnxLayer& l) {
  const OnnxValue x = last(l);
  OnnxGraph& graph = l.graph;
  const std::int64_t heads = l.integer("heads"), channels = l.summary().output.back(),
                     size = channels / heads;
  // Queries, keys and values in front, then samples, heads, tokens, features.
  const std::string parts = graph.node("Reshape",
                                       {x.name, graph.integers("shape", {0, 0, 3, heads, size})}),
                    moved = graph.node("Transpose", {parts}, {{"perm", Integers{2, 0, 3, 1, 4}}});
  const auto part = [&](std::int64_t number) {
    const std::string taken =
        graph.node("Gather", {moved, graph.integers("part", {number})}, {{"axis", 0}});
    return graph.node("Squeeze", {taken, graph.integers("axes", {0})});
  };
  const std::string queries = part(0), values = part(2),
                    keys = graph.node("Transpose", {part(1)}, {{"perm", Integers{0, 1, 3, 2}}});
  const float scale = 1 / std::sqrt(static_cast<float>(size));
  const std::string scores =
      graph.node("Mul", {graph.node("MatMul", {queries, keys}), graph.constant(scale)});
  const std::string weights = graph.node("Softmax", {scores}, {{"axis", -1}});
  const std::string means = graph.node("MatMul", {weights, values}),
                    tokens = graph.node("Transpose", {means}, {{"perm", Integers{0, 2, 1, 3}}});
  return result(l, graph.node("Reshape", {tokens, graph.integers("joined", {0, 0, channels})}), x);
}

struct Kind {
  std::string_view name;  ///< LayerSummary::kind
  OnnxValue (*layer)(OnnxLayer& layer);
};

constexpr Kind kKinds[] = {{"attention", attention_layer},
                           {"average_pool", pool_layer<false>},
                           {"batch_norm", batch_norm_layer},
                           {"channel_scale", channel_scale_layer},
                           {"class_token", class_token_layer},
                           {"conv1d", convolution_layer},
                           {"conv2d", convolution_layer},
                           {"dense", dense_layer},
                           {"dropout", same_layer},
                           {"embedding", embedding_layer},
                           {"first_token", first_token_layer},
                           {"flatten", flatten_layer},
                           {"gelu", unit_layer},
                           {"global_average_pool", global_pool_layer<false>},
                           {"global_max_pool", global_pool_layer<true>},
                           {"hard_sigmoid", unit_layer},
                           {"hard_swish", unit_layer},
                           {"layer_norm", layer_norm_layer},
                           {"layer_scale", layer_scale_layer},
                           {"max_pool", pool_layer<true>},
                           {"position_embedding", position_embedding_layer},
                           {"relu", unit_layer},
                           {"rescale", rescale_layer},
                           {"response_norm", response_norm_layer},
                           {"silu", unit_layer},
                           {"softmax", softmax_layer},
                           {"stochastic_depth", same_layer},
                           {"subsample", subsample_layer},
                           {"sum", sum_layer}};

/// The axes in the order of `value`'s other form.
Integers permutation(const OnnxValue& value) {
  if (value.shape.rank() == 3) return {0, 2, 1};
  return value.channels_first ? Integers{0, 2, 3, 1} : Integers{0, 3, 1, 2};
}

OnnxValue transposed(OnnxGraph& graph, const OnnxValue& value) {
  return {graph.node("Transpose", {value.name}, {{"perm", permutation(value)}}), value.shape,
          !value.channels_first};
}

}  // namespace

OnnxValue channels_first(OnnxGraph& graph, const OnnxValue& value) {
  return value.channels_first || value.shape.rank() == 2 ? value : transposed(graph, value);
}

OnnxValue channels_last(OnnxGraph& graph, const OnnxValue& value) {
  return value.channels_first ? transposed(graph, value) : value;
}

float OnnxLayer::number(const char* name) const {
  const auto found = summary().numbers.find(name);
  return found == summary().numbers.end() ? 0 : static_cast<float>(found->second);
}

std::int64_t OnnxLayer::integer(const char* name) const { return std::llround(number(name)); }

const Parameter* OnnxLayer::find(const std::string& own_name) const {
  for (const Parameter& parameter : network.layout.parameters) {
    if (parameter.layer == index && parameter.name.ends_with("/" + own_name)) return &parameter;
  }
  return nullptr;
}

std::vector<std::string> OnnxLayer::constants(std::initializer_list<const char*> own_names) const {
  std::vector<std::string> names;
  // Weights keep the names of PyTorch, without the prefix of nodes.
  graph.scope("");
  for (const char* own_name : own_names) {
    const Parameter* const parameter = find(own_name);
    if (parameter == nullptr) continue;
    names.push_back(graph.constant(pytorch_name(parameter->name), pytorch_shape(*parameter),
                                   to_pytorch(*parameter, network.values(*parameter))));
  }
  graph.scope(summary().name);
  return names;
}

OnnxValue onnx_layer(OnnxLayer& layer) {
  const std::string& kind = layer.summary().kind;
  const auto* const found = std::ranges::find(kKinds, kind, &Kind::name);
  require(found != std::end(kKinds),
          "the layer {} has the kind {}, which has no ONNX form. Export to .safetensors instead.",
          layer.summary().name, kind);
  layer.graph.scope(layer.summary().name);
  return found->layer(layer);
}

}  // namespace lockstep
