#include <array>
#include <cmath>
#include <vector>

#include "net/export/onnx_layers.h"
#include "src/base/check.h"
#include "src/base/machine.h"
#include "src/data/augment.h"

namespace lockstep {
namespace {

using Integers = OnnxGraph::Integers;

/// The version of the file format: that of opset 17.
constexpr int kFormatVersion = 8;

/// Declares the graph's input or output: `extents` after the batch.
void declare(onnx::Value& value, const char* name, int type, std::int64_t batch,
             const Integers& extents) {
  value.set_name(name);
  onnx::TensorType& tensor = *value.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type);
  onnx::TensorShape& shape = *tensor.mutable_shape();
  if (batch > 0) {
    shape.add_dim()->set_dim_value(batch);
  } else {
    shape.add_dim()->set_dim_param("batch");
  }
  for (const std::int64_t extent : extents) shape.add_dim()->set_dim_value(extent);
}

/// (x - mean) / deviation of each channel, for pixels from 0 to 1.
OnnxValue normalised(OnnxGraph& graph, const OnnxValue& x, const Normalisation& normalisation) {
  const std::int64_t channels = x.shape.back();
  const auto constant = [&](const char* name, std::array<float, 4> values) {
    for (float& value : values) value /= 255;
    return graph.constant(name, {channels, 1, 1}, std::span(values.data(), channels));
  };
  const std::string centred = graph.node("Sub", {x.name, constant("mean", normalisation.mean)});
  return {graph.node("Div", {centred, constant("deviation", normalisation.deviation)}), x.shape,
          true};
}

/// The middle of an image, standardised by its own mean and deviation (src/data/augment.h).
OnnxValue standardised_crop(OnnxGraph& graph, const std::string& image) {
  constexpr std::int64_t kFrom = (kImageSide - kCropSide) / 2, kTo = kFrom + kCropSide,
                         kValues = kCropSide * kCropSide * kImageChannels;
  const std::string crop =
      graph.node("Slice", {image, graph.integers("from", {kFrom, kFrom}),
                           graph.integers("to", {kTo, kTo}), graph.integers("axes", {2, 3})});
  // The mean over all values of an image, by an operator that all versions have. ReduceMean has its
  // axes as an attribute up to opset 17, and as an input from opset 18 on.
  const auto mean = [&](const std::string& values) {
    const std::string row =
        graph.node("Reshape", {values, graph.integers("row", {0, 1, kValues, 1})});
    return graph.node("GlobalAveragePool", {row});
  };
  const std::string centred = graph.node("Sub", {crop, mean(crop)}),
                    variance = mean(graph.node("Mul", {centred, centred}));
  // The least deviation of src/data/augment.h, for pixels from 0 to 1.
  const float least = 1 / (255 * std::sqrt(static_cast<float>(kValues)));
  const std::string deviation =
      graph.node("Max", {graph.node("Sqrt", {variance}), graph.constant(least)});
  return {graph.node("Div", {centred, deviation}), crop_shape(), true};
}

/// Declares the graph's input, and adds the work that comes before the first layer.
OnnxValue input_of(onnx::Graph& proto, OnnxGraph& graph, const SampleFormat& format,
                   std::int64_t batch) {
  const ImageSize& size = format.size;
  onnx::Value& input = *proto.add_input();
  if (format.kind == SampleFormat::Kind::words) {
    declare(input, "input", onnx::Tensor::INT64, batch, {size.width});
    input.set_doc_string("numbers of words");
    return {"input", format.shape()};
  }
  declare(input, "input", onnx::Tensor::FLOAT, batch, {size.channels, size.height, size.width});
  const OnnxValue image{"input", {1, size.height, size.width, size.channels}, true};
  if (format.kind == SampleFormat::Kind::values && !format.files) {
    input.set_doc_string("values as in training");
    return image;
  }
  input.set_doc_string("pixels from 0 to 1, which the graph normalises");
  graph.scope("preprocessing");
  if (format.kind == SampleFormat::Kind::crops) return standardised_crop(graph, image.name);
  return normalised(graph, image, format.normalisation);
}

void add_network(onnx::Graph& proto, OnnxGraph& graph, const TrainedNetwork& network,
                 const OnnxOptions& options) {
  const OnnxValue input = input_of(proto, graph, network.format, options.batch);
  std::vector<OnnxValue> outputs;
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    OnnxLayer layer{network, static_cast<int>(i), {}, graph};
    for (const int source : network.layers[i].inputs)
      layer.inputs.push_back(source == LayerSummary::kInput ? input : outputs[source]);
    outputs.push_back(onnx_layer(layer));
  }
  declare(*proto.add_output(), "logits", onnx::Tensor::FLOAT, options.batch,
          {outputs.back().shape.back()});
  // The output has a fixed name, whatever the last layer is called.
  onnx::Node& last = *proto.add_node();
  last.set_op_type("Identity");
  last.set_name("logits");
  last.add_input(outputs.back().name);
  last.add_output("logits");
}

}  // namespace

std::string onnx_file(const TrainedNetwork& network, const OnnxOptions& options) {
  constexpr std::size_t kLargest = 2147483647;  // protobuf's limit
  // 4 MiB of the limit are left to the graph itself.
  require(network.parameters.size() < kLargest / sizeof(float) - (1 << 20),
          "{} has {} parameters, and an ONNX file holds at most 2 GiB. Export to .safetensors "
          "instead.",
          network.name, network.parameters.size());
  onnx::Model model;
  model.set_ir_version(kFormatVersion);
  model.set_producer_name("lockstep");
  model.set_producer_version(build_name());
  onnx::OperatorSet& operators = *model.add_opset_import();
  operators.set_domain("");
  operators.set_version(options.opset);
  for (const auto& [key, value] : network.metadata) {
    onnx::Property& property = *model.add_metadata_props();
    property.set_key(key);
    property.set_value(value);
  }
  model.mutable_graph()->set_name(network.name);
  OnnxGraph graph(*model.mutable_graph());
  add_network(*model.mutable_graph(), graph, network, options);
  return model.SerializeAsString();
}

}  // namespace lockstep
