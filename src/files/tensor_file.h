// Named tensors in a file of trained weights. safetensors.h and pytorch_file.h read its formats.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "src/files/file.h"
#include "src/files/zip.h"

namespace lockstep {

/// The places of tensors in a file, and their numbers. Calls throw Error that names the file, and
/// UnreadableFile if it cannot be read now. One thread.
class TensorFile {
 public:
  struct Tensor {
    std::string type;                   ///< as safetensors calls it: "F32", "BF16", "I64", ...
    std::vector<std::int64_t> shape;    ///< empty: a single number
    std::vector<std::int64_t> strides;  ///< numbers from one index to the next, for each extent
    std::uint64_t begin = 0, end = 0;   ///< bytes of the file, from the first to the last number
  };

  /// Without tensors; a reader adds them.
  explicit TensorFile(std::filesystem::path file) : file_(std::move(file)) {}

  /// By name, without the "_orig_mod." of torch.compile().
  const std::map<std::string, Tensor>& tensors() const { return tensors_; }
  /// Texts about the weights.
  std::map<std::string, std::string> metadata;
  /// The numbers of a tensor of type F64, F32, F16 or BF16, in row-major order. Throws Error for
  /// other types, and if the checksum of its part of the file is wrong.
  std::vector<float> read(const std::string& name) const;

  /// The tensor lies within the file, and `strides` are those of its extents. Throws Error, without
  /// the file's name, if another tensor has the name or there are more than 64 extents.
  void add(std::string name, Tensor tensor);
  /// A part that shares no byte with the others.
  void add(const FilePart& part) { parts_[part.begin] = part; }

 private:
  void check_part_at(const InputFile& input, std::uint64_t place) const;

  std::filesystem::path file_;
  std::map<std::string, Tensor> tensors_;
  mutable std::map<std::uint64_t, FilePart> parts_;  ///< not yet checked, by begin
};

/// Bytes of a number; 0: the type is unknown.
std::uint64_t bytes_of_number(const std::string& type);

/// The strides of a dense tensor.
std::vector<std::int64_t> row_major(const std::vector<std::int64_t>& shape);

}  // namespace lockstep
