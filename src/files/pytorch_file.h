// Reading the weights in files of torch.save(): a state_dict, or a checkpoint of a training program
// that contains one. Both formats are read: a ZIP archive, and the older one before PyTorch 1.6.
// Format: torch/serialization.py of PyTorch.
#pragma once

#include <filesystem>

#include "src/files/tensor_file.h"

namespace lockstep {

/// The tensors of the state_dict in `file`. It is the object that was saved, or its entry
/// "state_dict", "model", "model_state_dict" or "model_ema", the first that is there. Nothing of
/// the file is executed; objects of classes beside the weights are skipped. Throws Error that names
/// the file, and UnreadableFile: it is damaged, has no state_dict, or a weight is no dense tensor.
TensorFile read_pytorch(const std::filesystem::path& file);

}  // namespace lockstep
