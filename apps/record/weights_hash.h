// The hash of a network's weights. Two runs with the same hash have bitwise identical weights.
//
// It is the SHA-256 of all arrays of a checkpoint's group "parameters", in the order of their
// names' bytes. Each is the line "NAME SHAPE\n", such as "conv1/weights 16x3x3x3\n", and then its
// values as little-endian fp32.
#pragma once

#include <filesystem>
#include <string>

#include "net/parameters.h"

namespace lockstep {

/// Instead of the hash, if a weight is NaN or Inf: NaNs of equal runs differ between processors.
inline constexpr const char* kNotFinite = "not finite";

/// The hash of an arena of layout.count floats, as 64 hexadecimal digits. Any thread.
std::string weights_sha256(const Layout& layout, const float* parameters);

/// The hash of a checkpoint's weights, or of another of its groups such as "ema". Throws Error that
/// names the file if it cannot be read, is damaged, or has no such arrays.
std::string weights_sha256(const std::filesystem::path& checkpoint,
                           const std::string& group = "parameters");

}  // namespace lockstep
