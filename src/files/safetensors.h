// Reading .safetensors files, in which people exchange trained weights: a JSON header with the
// name, type, shape and place of each tensor, then the numbers.
// Format: huggingface.co/docs/safetensors.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/files/tensor_file.h"

namespace lockstep {

/// Reads and checks the header, so every tensor lies within the file. The metadata are the texts of
/// its __metadata__. Throws Error that names the file, and UnreadableFile.
TensorFile read_safetensors(const std::filesystem::path& file);

/// The texts of `text`, a text of the metadata that is a JSON list; empty if it is none.
std::vector<std::string> texts_of_list(const std::string& text);

}  // namespace lockstep
