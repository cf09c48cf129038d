// CRC-32C (Castagnoli), the checksum of TensorBoard's record framing.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace lockstep {

/// Source: RFC 3720, appendix B.4: polynomial 0x1EDC6F41, bits reflected, register and result
/// inverted.
inline std::uint32_t crc32c(std::string_view bytes) {
  static constexpr auto kTable = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      table[i] = i;
      for (int bit = 0; bit < 8; ++bit)
        table[i] = (table[i] >> 1) ^ (table[i] & 1 ? 0x82F63B78u : 0u);
    }
    return table;
  }();
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes)
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  return ~crc;
}

/// As stored beside data: the checksum of bytes that hold checksums would be no good (TensorFlow's
/// core/lib/hash/crc32c.h).
inline std::uint32_t masked_crc32c(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8;
}

}  // namespace lockstep
