// A graph of ONNX operators that grows node by node.
// Format: onnx.ai/onnx/repo-docs/IR.html and onnx.ai/onnx/operators.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "onnx.pb.h"

namespace lockstep {

/// Adds to a graph of the caller, who keeps it. Nodes and constants are named after the scope, and
/// each name is unique. One thread.
class OnnxGraph {
 public:
  using Integers = std::vector<std::int64_t>;
  using Attributes =
      std::vector<std::pair<const char*, std::variant<std::int64_t, float, Integers>>>;

  explicit OnnxGraph(onnx::Graph& graph) : graph_(graph) {}

  /// The beginning of the names that follow: the name of a layer.
  void scope(const std::string& name) { scope_ = name.empty() ? "" : name + "/"; }
  /// Adds a node with one output and returns the output's name.
  std::string node(const char* operation, const std::vector<std::string>& inputs,
                   const Attributes& attributes = {});
  /// Adds constants and returns their name. `dims` is empty for a single number.
  std::string constant(const std::string& name, const Integers& dims,
                       std::span<const float> values);
  std::string constant(float value) { return constant("number", {}, {&value, 1}); }
  std::string integers(const std::string& name, const Integers& values);

 private:
  std::string unique(const std::string& name);
  onnx::Tensor& tensor(const std::string& name, const Integers& dims, int type, const void* data,
                       std::size_t bytes);

  onnx::Graph& graph_;
  std::string scope_;
  std::map<std::string, int> names_;  ///< how often each was wanted
};

}  // namespace lockstep
