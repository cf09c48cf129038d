// Image files that tests write.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace lockstep {

using Bytes = std::vector<std::uint8_t>;

enum class Colours { grey, rgb, rgba, cmyk };

/// A PNG file. `pixels`: rows from the top, the channels of a pixel side by side.
Bytes png_of(const Bytes& pixels, int width, int height, Colours colours = Colours::rgb);

struct JpegKind {
  Colours colours = Colours::rgb;
  bool progressive = false;
  Bytes marker = {};    ///< contents of APP1
  int sampling = 0x11;  ///< of brightness: horizontal, vertical
  int quality = 100;
};
Bytes jpeg_of(const Bytes& pixels, int width, int height, const JpegKind& kind = {});

/// Whether this build reads the format of `file`. The libraries of some formats may be missing.
bool can_read(const Bytes& file);

/// Writes the file, and makes its folder.
void put_image(const std::filesystem::path& file, const Bytes& bytes);

}  // namespace lockstep
