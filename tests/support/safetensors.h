// Writing .safetensors files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "tests/support/files.h"

namespace lockstep {

/// A file with any header and numbers.
inline void write_safetensors_text(const std::filesystem::path& file, const std::string& header,
                                   const std::string& numbers) {
  std::string length(8, '\0');
  for (int i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
  std::ofstream(file, std::ios::binary) << length << header << numbers;
}

}  // namespace lockstep
