#include "src/base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace lockstep {
namespace {

// The register after each byte, from a register of 0. 0x82F63B78 is the polynomial of CRC-32C,
// 0x1EDC6F41, with its bits in reverse order.
constexpr auto kTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    table[i] = i;
    for (int bit = 0; bit < 8; ++bit)
      table[i] = (table[i] >> 1) ^ (table[i] & 1 ? 0x82F63B78u : 0u);
  }
  return table;
}();

/// The register after `bytes`; it is not inverted before or after.
std::uint32_t step_by_table(std::uint32_t crc, std::string_view bytes) {
  for (const char byte : bytes)
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  return crc;
}

#if defined(__x86_64__)
std::uint64_t word_at(const char* from) {
  std::uint64_t word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

__attribute__((target("sse4.2"))) std::uint32_t step_by_instruction(std::uint32_t crc,
                                                                    std::string_view bytes) {
  std::uint64_t wide = crc;
  for (; bytes.size() >= 8; bytes.remove_prefix(8))
    wide = _mm_crc32_u64(wide, word_at(bytes.data()));
  return step_by_table(static_cast<std::uint32_t>(wide), bytes);
}
#endif

}  // namespace

std::uint32_t crc32c(std::string_view bytes, std::uint32_t before) {
#if defined(__x86_64__)
  // The processor is asked when the program runs, because one build serves all processors.
  if (__builtin_cpu_supports("sse4.2")) return ~step_by_instruction(~before, bytes);
#endif
  return crc32c_by_table(bytes, before);
}

std::uint32_t crc32c_by_table(std::string_view bytes, std::uint32_t before) {
  return ~step_by_table(~before, bytes);
}

}  // namespace lockstep
