// Weights that begin a run (--init): those of a checkpoint, or of a .safetensors or PyTorch
// file with the names and shapes of a PyTorch module.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "net/checkpoint.h"

namespace lockstep {

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
