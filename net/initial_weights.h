// Weights that begin a run (--init): those of a checkpoint, or of a .safetensors or PyTorch
// file with the names and shapes of a PyTorch module.
#pragma once

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "net/checkpoint.h"

namespace lockstep {

/// The models whose published weights scripts/get_weights.sh downloads.
inline constexpr std::array<std::string_view, 6> kPublishedWeights{
    "resnet18", "resnet34", "resnet50", "mobilenet_v3_large", "convnext_tiny", "vit_b_16"};

inline bool has_published_weights(std::string_view model) {
  return std::ranges::count(kPublishedWeights, model) > 0;
}

/// The metadata of the checkpoint `file`. Of a .safetensors file: the model and the classes, if
/// export_model wrote it.
CheckpointMetadata initial_metadata(const std::filesystem::path& file);

/// Overwrites the arena `parameters` by the weights of `file`, which is verified. A last layer of
/// another number of classes becomes zero; so does any last layer if `other_classes`. Returns lines
/// about what was used and what was not. Throws Error, with the arena unchanged, if the file
/// is damaged or of another model.
std::vector<std::string> load_initial_weights(const std::filesystem::path& file,
                                              const Layout& layout, float* parameters,
                                              bool other_classes = false);

}  // namespace lockstep
