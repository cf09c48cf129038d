// The kind of a file by its contents, so that an error names what a user passed and the way on.
#pragma once

#include <filesystem>
#include <string_view>

namespace lockstep {

struct FileKind {
  std::string_view name;    ///< "a PyTorch file"; empty: unknown, or it is no file
  std::string_view advice;  ///< a sentence, for readers of other kinds
};

/// Names of the kinds that Lockstep reads.
inline constexpr std::string_view kCheckpointFile = "a checkpoint",
                                  kSafetensorsFile = "a .safetensors file",
                                  kPytorchFile = "a PyTorch file",
                                  kPackedFile = "a file of pack_images",
                                  kArraysFile = "a data set of arrays",
                                  kTextsFile = "a data set of texts";

/// Throws UnreadableFile if the file cannot be read now.
FileKind kind_of(const std::filesystem::path& file);

/// Throws Error if `file` is of a known kind, but not `wanted`. A damaged file is of no known kind:
/// its reader names the damage.
void require_kind(const std::filesystem::path& file, std::string_view wanted);

}  // namespace lockstep
