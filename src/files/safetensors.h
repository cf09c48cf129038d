// Reading .safetensors files, in which people exchange trained weights: a JSON header with the
// name, type, shape and place of each tensor, then the numbers.
// Format: huggingface.co/docs/safetensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace lockstep {

/// The constructor reads and checks the header, so every tensor lies within the file. Calls throw
/// Error that names the file. One thread.
class SafetensorsReader {
 public:
  struct Tensor {
    std::string type;                  ///< "F32", "BF16", ...
    std::vector<std::int64_t> shape;   ///< empty: a single number
    std::uint64_t begin = 0, end = 0;  ///< bytes of the file
  };

  explicit SafetensorsReader(std::filesystem::path file);

  /// By name, without the "_orig_mod." of torch.compile().
  const std::map<std::string, Tensor>& tensors() const { return tensors_; }
  /// A text of the header's __metadata__; empty if there is none.
  std::string metadata(const std::string& name) const;
  /// The texts of such a text that is a JSON list; empty if it is none.
  std::vector<std::string> metadata_list(const std::string& name) const;
  /// The numbers of a tensor of type F64, F32, F16 or BF16, in row-major order. Throws Error for
  /// other types.
  std::vector<float> read(const std::string& name) const;

 private:
  std::filesystem::path file_;
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace lockstep
