// A trained network as a file for other programs: ONNX with its graph, or safetensors with its
// weights only.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "net/model.h"
#include "src/data/dataset.h"

namespace lockstep {

/// A network with its weights in the host's memory.
struct TrainedNetwork {
  std::string name;  ///< "resnet50"
  Layout layout;
  std::vector<LayerSummary> layers;  ///< Model::layers()
  std::vector<float> parameters;     ///< layout.count
  /// The samples that it was trained on. `normalisation` normalises images and image files.
  SampleFormat format;
  /// Texts for readers of the file, by name.
  std::map<std::string, std::string> metadata = {};

  std::span<const float> values(const Parameter& parameter) const {
    return std::span(parameters).subspan(parameter.range.begin, parameter.range.count);
  }
};

struct OnnxOptions {
  std::int64_t batch = 0;  ///< 0: a file for batches of any size
  int opset = 17;          ///< from kLeastOpset to kMostOpset
};
/// The exported operators mean the same in all of these versions of ONNX's operators.
inline constexpr int kLeastOpset = 17, kMostOpset = 24;

/// The bytes of an .onnx file. Its input is `input`: pixels from 0 to 1 as N, C, H, W, which the
/// graph normalises, or words as N, L of int64. Its output is `logits`: N, classes. Throws Error
/// if a kind of layer has no ONNX form, or if the file would be larger than 2 GiB.
std::string onnx_file(const TrainedNetwork& network, const OnnxOptions& options);

/// The bytes of a .safetensors file with the names and shapes of a PyTorch module, as
/// load_initial_weights() reads it.
std::string safetensors_file(const TrainedNetwork& network);

}  // namespace lockstep
