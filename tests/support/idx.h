// Files of digits in MNIST's IDX format.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>

#include "src/data/sets/mnist.h"

namespace lockstep {

/// The magic number and the extents, as the file begins.
inline std::string idx_header(std::initializer_list<std::uint32_t> numbers) {
  std::string bytes;
  for (const std::uint32_t number : numbers) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift);
  }
  return bytes;
}

/// A file of `count` images of 28 x 28 with pixel(image, place).
inline std::string idx_images(std::int64_t count,
                              const std::function<int(std::int64_t, std::int64_t)>& pixel) {
  std::string bytes = idx_header({2051, static_cast<std::uint32_t>(count), 28, 28});
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t p = 0; p < kDigitPixels; ++p) bytes += static_cast<char>(pixel(i, p));
  return bytes;
}

/// A file of `count` labels.
inline std::string idx_labels(std::int64_t count,
                              const std::function<std::int64_t(std::int64_t)>& label) {
  std::string bytes = idx_header({2049, static_cast<std::uint32_t>(count)});
  for (std::int64_t i = 0; i < count; ++i) bytes += static_cast<char>(label(i));
  return bytes;
}

}  // namespace lockstep
