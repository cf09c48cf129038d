#include "src/base/crc32c.h"

#include <array>
#include <cstring>
#include <string>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace lockstep {
namespace {

constexpr auto kTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    table[i] = i;
    for (int bit = 0; bit < 8; ++bit)
      table[i] = (table[i] >> 1) ^ (table[i] & 1 ? 0x82F63B78u : 0u);
  }
  return table;
}();

/// The register after `bytes`, neither inverted before nor after.
std::uint32_t step_by_table(std::uint32_t crc, std::string_view bytes) {
  for (const char byte : bytes)
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  return crc;
}

#if defined(__x86_64__)

/// The instruction takes three cycles, and one can begin in each: three stretches are summed side
/// by side.
constexpr std::size_t kStretch = 4096;

/// Joins them: what the register becomes over a stretch of zeros, by each of its bytes (the
/// operation is linear).
class OverZeros {
 public:
  OverZeros() {
    const std::string zeros(kStretch, '\0');
    for (std::size_t byte = 0; byte < 4; ++byte) {
      std::array<std::uint32_t, 256>& table = table_[byte];
      for (std::size_t bit = 0; bit < 8; ++bit)
        table[std::size_t{1} << bit] = step_by_table(1u << (8 * byte + bit), zeros);
      for (std::size_t i = 1; i < 256; ++i) table[i] = table[i & (i - 1)] ^ table[i & (~i + 1)];
    }
  }
  std::uint32_t operator()(std::uint32_t crc) const {
    return table_[0][crc & 0xFF] ^ table_[1][crc >> 8 & 0xFF] ^ table_[2][crc >> 16 & 0xFF] ^
           table_[3][crc >> 24];
  }

 private:
  std::array<std::array<std::uint32_t, 256>, 4> table_{};
};

std::uint64_t word_at(const char* from) {
  std::uint64_t word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

__attribute__((target("sse4.2"))) std::uint32_t step_by_instruction(std::uint32_t crc,
                                                                    std::string_view bytes) {
  std::uint64_t first = crc;
  while (bytes.size() >= 3 * kStretch) {
    static const OverZeros over_zeros;
    std::uint64_t second = 0, third = 0;
    const char* from = bytes.data();
    for (std::size_t i = 0; i < kStretch; i += 8) {
      first = _mm_crc32_u64(first, word_at(from + i));
      second = _mm_crc32_u64(second, word_at(from + kStretch + i));
      third = _mm_crc32_u64(third, word_at(from + 2 * kStretch + i));
    }
    const auto joined = over_zeros(static_cast<std::uint32_t>(first)) ^ second;
    first = over_zeros(static_cast<std::uint32_t>(joined)) ^ third;
    bytes.remove_prefix(3 * kStretch);
  }
  for (; bytes.size() >= 8; bytes.remove_prefix(8))
    first = _mm_crc32_u64(first, word_at(bytes.data()));
  return step_by_table(static_cast<std::uint32_t>(first), bytes);
}

#endif

}  // namespace

std::uint32_t crc32c(std::string_view bytes, std::uint32_t before) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return ~step_by_instruction(~before, bytes);
#endif
  return crc32c_by_table(bytes, before);
}

std::uint32_t crc32c_by_table(std::string_view bytes, std::uint32_t before) {
  return ~step_by_table(~before, bytes);
}

}  // namespace lockstep
