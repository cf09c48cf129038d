#include "net/export/onnx_graph.h"

#include <bit>

namespace lockstep {

static_assert(std::endian::native == std::endian::little, "raw_data is little-endian");

std::string OnnxGraph::unique(const std::string& name) {
  const int before = names_[name]++;
  return before == 0 ? name : unique(name + "_" + std::to_string(before + 1));
}

std::string OnnxGraph::node(const char* operation, const std::vector<std::string>& inputs,
                            const Attributes& attributes) {
  onnx::Node& node = *graph_.add_node();
  node.set_op_type(operation);
  node.set_name(unique(scope_ + operation));
  for (const std::string& input : inputs) node.add_input(input);
  // A node has one output, so that both may have the same name.
  node.add_output(node.name());
  for (const auto& [name, value] : attributes) {
    onnx::Attribute& attribute = *node.add_attribute();
    attribute.set_name(name);
    if (const auto* integer = std::get_if<std::int64_t>(&value)) {
      attribute.set_type(onnx::Attribute::INT);
      attribute.set_i(*integer);
    } else if (const auto* number = std::get_if<float>(&value)) {
      attribute.set_type(onnx::Attribute::FLOAT);
      attribute.set_f(*number);
    } else {
      attribute.set_type(onnx::Attribute::INTS);
      for (const std::int64_t each : std::get<Integers>(value)) attribute.add_ints(each);
    }
  }
  return node.name();
}

onnx::Tensor& OnnxGraph::tensor(const std::string& name, const Integers& dims, int type,
                                const void* data, std::size_t bytes) {
  onnx::Tensor& tensor = *graph_.add_initializer();
  tensor.set_name(unique(name));
  for (const std::int64_t extent : dims) tensor.add_dims(extent);
  tensor.set_data_type(type);
  tensor.set_raw_data(data, bytes);
  return tensor;
}

std::string OnnxGraph::constant(const std::string& name, const Integers& dims,
                                std::span<const float> values) {
  return tensor(scope_ + name, dims, onnx::Tensor::FLOAT, values.data(), values.size_bytes())
      .name();
}

std::string OnnxGraph::integers(const std::string& name, const Integers& values) {
  return tensor(scope_ + name, {static_cast<std::int64_t>(values.size())}, onnx::Tensor::INT64,
                values.data(), values.size() * sizeof(std::int64_t))
      .name();
}

}  // namespace lockstep
