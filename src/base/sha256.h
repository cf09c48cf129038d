// SHA-256, the hash that names the weights of a run.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

/// The hash of bytes that arrive in parts. Source: FIPS 180-4, section 6.2. About 1.5 GB/s if an
/// x86 processor has instructions for it, else 0.25 GB/s.
class Sha256 {
 public:
  Sha256() : Sha256(/*by_instruction=*/true) {}
  /// `by_instruction`: uses these instructions if there are any.
  explicit Sha256(bool by_instruction);

  void add(std::string_view bytes);
  /// 64 hexadecimal digits. Only once, as the last call.
  std::string digest();

 private:
  static constexpr std::size_t kBlock = 64;  ///< bytes

  void add_blocks(const unsigned char* bytes, std::size_t count);

  bool by_instruction_;
  std::uint64_t bytes_ = 0;
  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, kBlock> part_{};  ///< the bytes after the last whole block
};

}  // namespace lockstep
