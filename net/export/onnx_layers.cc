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

/// The result of the layer, in the order of `like`.
OnnxValue result(const OnnxLayer& l, const std::string& name, const OnnxValue& like) {
  return {name, l.summary().output, like.channels_first && l.summary().output.rank() > 2};
}

/// A constant with one value per channel that is broadcast over the rest of `x`.
std::string per_channel(OnnxLayer& l, const std::string& name, std::span<const float> values,
                        const OnnxValue& x) {
  Integers dims{static_cast<std::int64_t>(values.size())};
  if (x.channels_first) dims.resize(x.shape.rank() - 1, 1);
  return l.graph.constant(name, dims, values);
}

std::string gelu_of(OnnxGraph& graph, const std::string& x) {
  const std::string scaled = graph.node("Div", {x, graph.constant(std::sqrt(2.0f))}),
                    erf = graph.node("Erf", {scaled}),
                    step = graph.node("Add", {erf, graph.constant(1)});
  return graph.node("Mul", {graph.node("Mul", {x, step}), graph.constant(0.5f)});
}

/// The activation that is part of a layer.
std::string activated(OnnxLayer& l, const std::string& name) {
  if (l.number("relu") > 0) return l.graph.node("Relu", {name});
  if (l.number("gelu") > 0) return gelu_of(l.graph, name);
  if (l.number("hard_swish") > 0) return l.graph.node("HardSwish", {name});
  return name;
}

OnnxValue convolution_layer(OnnxLayer& l) {
  const OnnxValue x = first(l);
  const std::int64_t axes = spatial_axes(x);
  std::vector<std::string> inputs{x.name, l.constant(*l.find("weights"))};
  if (const Parameter* biases = l.find("biases")) inputs.push_back(l.constant(*biases));
  const std::string y = l.graph.node("Conv", inputs,
                                     {{"strides", Integers(axes, l.integer("stride"))},
                                      {"pads", Integers(2 * axes, l.integer("pad"))},
                                      {"dilations", Integers(axes, l.integer("dilation"))},
                                      {"group", l.integer("groups")}});
  return result(l, activated(l, y), x);
}

/// Over all features of a sample, or over the last extent.
OnnxValue dense_layer(OnnxLayer& l) {
  OnnxValue x = last(l);
  const Parameter &weights = *l.find("weights"), *biases = l.find("biases");
  if (l.summary().output.rank() == 2) {
    if (x.shape.rank() > 2) x.name = l.graph.node("Flatten", {x.name}, {{"axis", 1}});
    std::vector<std::string> inputs{x.name, l.constant(weights)};
    if (biases != nullptr) inputs.push_back(l.constant(*biases));
    return result(l, activated(l, l.graph.node("Gemm", inputs, {{"transB", 1}})), x);
  }
  const std::int64_t rows = weights.shape[0], columns = weights.shape[1];
  const std::span<const float> values = l.values(weights);
  std::vector<float> transposed(values.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column)
      transposed[column * rows + row] = values[row * columns + column];
  }
  std::string y = l.graph.node(
      "MatMul", {x.name, l.graph.constant("weight_transposed", {columns, rows}, transposed)});
  if (biases != nullptr) y = l.graph.node("Add", {y, l.constant(*biases)});
  return result(l, activated(l, y), x);
}

template <bool kMax>
OnnxValue pool_layer(OnnxLayer& l) {
  const OnnxValue x = first(l);
  const std::int64_t axes = spatial_axes(x);
  Integers pads{l.integer("pad_left"), l.integer("pad_right")};
  if (axes == 2) pads = {l.integer("pad_top"), pads[0], l.integer("pad_bottom"), pads[1]};
  const std::string y = l.graph.node(kMax ? "MaxPool" : "AveragePool", {x.name},
                                     {{"kernel_shape", Integers(axes, l.integer("kernel"))},
                                      {"strides", Integers(axes, l.integer("stride"))},
                                      {"pads", pads}});
  return result(l, activated(l, y), x);
}

template <bool kMax>
OnnxValue global_pool_layer(OnnxLayer& l) {
  const OnnxValue x = first(l);
  std::string y = l.graph.node(kMax ? "GlobalMaxPool" : "GlobalAveragePool", {x.name});
  if (l.summary().output.rank() == 2) y = l.graph.node("Flatten", {y}, {{"axis", 1}});
  return result(l, y, x);
}

OnnxValue batch_norm_layer(OnnxLayer& l) {
  const OnnxValue x = first(l);
  const Parameter& beta = *l.find("beta");
  const Parameter* gamma = l.find("gamma");
  const std::vector<float> ones(beta.shape.count(), 1);
  const std::string scale =
      gamma != nullptr ? l.constant(*gamma) : l.graph.constant("ones", {beta.shape.count()}, ones);
  const std::string y = l.graph.node("BatchNormalization",
                                     {x.name, scale, l.constant(beta), l.constant(*l.find("mean")),
                                      l.constant(*l.find("variance"))},
                                     {{"epsilon", l.number("epsilon")}});
  return result(l, activated(l, y), x);
}

OnnxValue layer_norm_layer(OnnxLayer& l) {
  const OnnxValue x = last(l);
  return result(l,
                l.graph.node("LayerNormalization",
                             {x.name, l.constant(*l.find("gamma")), l.constant(*l.find("beta"))},
                             {{"axis", -1}, {"epsilon", l.number("epsilon")}}),
                x);
}

OnnxValue response_norm_layer(OnnxLayer& l) {
  const OnnxValue x = first(l);
  const std::int64_t size = 2 * l.integer("radius") + 1;
  return result(l,
                l.graph.node("LRN", {x.name},
                             {{"size", size},
                              {"bias", l.number("bias")},
                              {"alpha", l.number("alpha") * static_cast<float>(size)},
                              {"beta", l.number("beta")}}),
                x);
}

OnnxValue relu_layer(OnnxLayer& l) {
  const OnnxValue& x = l.inputs[0];
  return result(l, l.graph.node("Relu", {x.name}), x);
}

OnnxValue gelu_layer(OnnxLayer& l) {
  const OnnxValue& x = l.inputs[0];
  return result(l, gelu_of(l.graph, x.name), x);
}

OnnxValue silu_layer(OnnxLayer& l) {
  const OnnxValue& x = l.inputs[0];
  return result(l, l.graph.node("Mul", {x.name, l.graph.node("Sigmoid", {x.name})}), x);
}

OnnxValue hard_sigmoid_layer(OnnxLayer& l) {
  const OnnxValue& x = l.inputs[0];
  const OnnxGraph::Attributes line{{"alpha", 1.0f / 6}, {"beta", 0.5f}};
  return result(l, l.graph.node("HardSigmoid", {x.name}, line), x);
}

OnnxValue hard_swish_layer(OnnxLayer& l) {
  const OnnxValue& x = l.inputs[0];
  return result(l, l.graph.node("HardSwish", {x.name}), x);
}

OnnxValue rescale_layer(OnnxLayer& l) {
  const OnnxValue& x = l.inputs[0];
  std::string y = l.graph.node("Mul", {x.name, l.graph.constant(l.number("factor"))});
  const float offset = l.number("offset");
  if (offset != 0) y = l.graph.node("Add", {y, l.graph.constant(offset)});
  return result(l, y, x);
}

OnnxValue flatten_layer(OnnxLayer& l) {
  const OnnxValue x = last(l);
  return result(l, l.graph.node("Flatten", {x.name}, {{"axis", 1}}), x);
}

OnnxValue softmax_layer(OnnxLayer& l) {
  const OnnxValue x = last(l);
  return result(l, l.graph.node("Softmax", {x.name}, {{"axis", -1}}), x);
}

OnnxValue embedding_layer(OnnxLayer& l) {
  const std::string vectors = l.constant(*l.find("vectors"));
  return result(l, l.graph.node("Gather", {vectors, l.inputs[0].name}, {{"axis", 0}}), l.inputs[0]);
}

/// Dropout and stochastic depth do nothing after training.
OnnxValue same_layer(OnnxLayer& l) { return l.inputs[0]; }

OnnxValue subsample_layer(OnnxLayer& l) {
  const OnnxValue x = first(l);
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
  return result(l, activated(l, l.graph.node("Add", {a.name, b.name})), a);
}

/// x times the factors of each channel and sample.
OnnxValue channel_scale_layer(OnnxLayer& l) {
  const OnnxValue x = first(l), factors = channels_first(l.graph, l.inputs[1]);
  return result(l, l.graph.node("Mul", {x.name, factors.name}), x);
}

OnnxValue layer_scale_layer(OnnxLayer& l) {
  const OnnxValue& x = l.inputs[0];
  const std::string values = per_channel(l, "values", l.values(*l.find("values")), x);
  return result(l, l.graph.node("Mul", {x.name, values}), x);
}

/// A row of zeros comes in front of each sample, and the token is added to it. So nothing depends
/// on the size of the batch.
OnnxValue class_token_layer(OnnxLayer& l) {
  OnnxValue x = last(l);
  const std::int64_t channels = x.shape.back(), length = l.summary().output[1];
  if (x.shape.rank() == 4)
    x.name = l.graph.node("Reshape", {x.name, l.graph.integers("shape", {0, -1, channels})});
  const std::span<const float> token = l.values(*l.find("values"));
  std::vector<float> rows(length * channels);
  std::copy(token.begin(), token.end(), rows.begin());
  const std::string longer =
      l.graph.node("Pad", {x.name, l.graph.integers("pads", {0, 1, 0, 0, 0, 0})});
  return result(
      l, l.graph.node("Add", {longer, l.graph.constant("token", {1, length, channels}, rows)}), x);
}

OnnxValue position_embedding_layer(OnnxLayer& l) {
  const OnnxValue x = last(l);
  return result(l, l.graph.node("Add", {x.name, l.constant(*l.find("values"))}), x);
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
                           {"gelu", gelu_layer},
                           {"global_average_pool", global_pool_layer<false>},
                           {"global_max_pool", global_pool_layer<true>},
                           {"hard_sigmoid", hard_sigmoid_layer},
                           {"hard_swish", hard_swish_layer},
                           {"layer_norm", layer_norm_layer},
                           {"layer_scale", layer_scale_layer},
                           {"max_pool", pool_layer<true>},
                           {"position_embedding", position_embedding_layer},
                           {"relu", relu_layer},
                           {"rescale", rescale_layer},
                           {"response_norm", response_norm_layer},
                           {"silu", silu_layer},
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

std::span<const float> OnnxLayer::values(const Parameter& parameter) const {
  return std::span(network.parameters).subspan(parameter.range.begin, parameter.range.count);
}

std::string OnnxLayer::constant(const Parameter& parameter) const {
  std::vector<float> moved(parameter.shape.count());
  to_pytorch(parameter, values(parameter), moved.data());
  graph.scope("");
  const std::string name =
      graph.constant(pytorch_name(parameter.name), pytorch_shape(parameter), moved);
  graph.scope(summary().name);
  return name;
}

OnnxValue onnx_layer(OnnxLayer& layer) {
  const std::string& kind = layer.summary().kind;
  const auto* const found = std::find_if(std::begin(kKinds), std::end(kKinds),
                                         [&](const Kind& each) { return each.name == kind; });
  require(found != std::end(kKinds),
          "the layer {} has the kind {}, which has no ONNX form. Export to .safetensors instead.",
          layer.summary().name, kind);
  layer.graph.scope(layer.summary().name);
  return found->layer(layer);
}

}  // namespace lockstep
