#include "src/base/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lockstep {
namespace {

using State = std::array<std::uint32_t, 8>;

constexpr int kRounds = 64;
alignas(16) constexpr std::uint32_t kConstants[kRounds] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t big_endian_word(const unsigned char* at) {
  return std::uint32_t{at[0]} << 24 | std::uint32_t{at[1]} << 16 | std::uint32_t{at[2]} << 8 |
         at[3];
}

/// The state after one block. The names are those of the standard.
void add_block(State& state, const unsigned char* block) {
  std::uint32_t w[kRounds];
  for (int t = 0; t < 16; ++t) w[t] = big_endian_word(block + 4 * t);
  for (int t = 16; t < kRounds; ++t) {
    const std::uint32_t x = w[t - 15], y = w[t - 2];
    const std::uint32_t sigma0 = std::rotr(x, 7) ^ std::rotr(x, 18) ^ (x >> 3);
    const std::uint32_t sigma1 = std::rotr(y, 17) ^ std::rotr(y, 19) ^ (y >> 10);
    w[t] = sigma1 + w[t - 7] + sigma0 + w[t - 16];
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int t = 0; t < kRounds; ++t) {
    const std::uint32_t sum1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t choice = (e & f) ^ (~e & g);
    const std::uint32_t t1 = h + sum1 + choice + kConstants[t] + w[t];
    const std::uint32_t sum0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + sum0 + majority;
  }
  const State change{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < state.size(); ++i) state[i] += change[i];
}

#if defined(__x86_64__)
bool has_instructions() {
  return __builtin_cpu_supports("sha") && __builtin_cpu_supports("sse4.1");
}

using Words = std::uint32_t __attribute__((vector_size(16)));

/// Four of the eight words of `low` and `high`, from word First on. GCC refuses _mm_alignr_epi8()
/// without optimisation.
template <int First>
[[gnu::always_inline]] inline __m128i four_words(__m128i low, __m128i high) {
  return reinterpret_cast<__m128i>(__builtin_shufflevector(reinterpret_cast<Words>(low),
                                                           reinterpret_cast<Words>(high), First,
                                                           First + 1, First + 2, First + 3));
}

/// The same for `count` blocks. An instruction does two rounds; its registers contain the state as
/// (f, e, b, a) and (h, g, d, c), the lowest word first.
__attribute__((target("sha,sse4.1"))) void add_blocks_by_instruction(State& state,
                                                                     const unsigned char* block,
                                                                     std::size_t count) {
  const auto words = [&](std::size_t i) { return reinterpret_cast<__m128i*>(state.data() + i); };
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const __m128i badc = _mm_shuffle_epi32(_mm_loadu_si128(words(0)), 0xB1);
  const __m128i hgfe = _mm_shuffle_epi32(_mm_loadu_si128(words(4)), 0x1B);
  __m128i feba = four_words<2>(hgfe, badc), hgdc = _mm_blend_epi16(hgfe, badc, 0xF0);
  for (; count > 0; --count, block += 64) {
    const __m128i old_feba = feba, old_hgdc = hgdc;
    __m128i w[4];  // the last 16 words of the message schedule
#pragma GCC unroll 16
    for (int group = 0; group < kRounds / 4; ++group) {
      __m128i& now = w[group % 4];
      if (group < 4) {
        const auto* const from = reinterpret_cast<const __m128i*>(block + 16 * group);
        now = _mm_shuffle_epi8(_mm_loadu_si128(from), big_endian);
      } else {
        const __m128i before = w[(group + 3) % 4];
        const __m128i seven_before = four_words<1>(w[(group + 2) % 4], before);
        const __m128i sum =
            _mm_add_epi32(_mm_sha256msg1_epu32(now, w[(group + 1) % 4]), seven_before);
        now = _mm_sha256msg2_epu32(sum, before);
      }
      const auto* const constants = reinterpret_cast<const __m128i*>(kConstants + 4 * group);
      const __m128i sum = _mm_add_epi32(now, _mm_load_si128(constants));
      hgdc = _mm_sha256rnds2_epu32(hgdc, feba, sum);
      feba = _mm_sha256rnds2_epu32(feba, hgdc, _mm_shuffle_epi32(sum, 0x0E));
    }
    feba = _mm_add_epi32(feba, old_feba);
    hgdc = _mm_add_epi32(hgdc, old_hgdc);
  }
  const __m128i abef = _mm_shuffle_epi32(feba, 0x1B), dchg = _mm_shuffle_epi32(hgdc, 0xB1);
  _mm_storeu_si128(words(0), _mm_blend_epi16(abef, dchg, 0xF0));
  _mm_storeu_si128(words(4), four_words<2>(abef, dchg));
}
#else
bool has_instructions() { return false; }
void add_blocks_by_instruction(State&, const unsigned char*, std::size_t) {}
#endif

}  // namespace

Sha256::Sha256(bool by_instruction) : by_instruction_(by_instruction && has_instructions()) {}

void Sha256::add_blocks(const unsigned char* bytes, std::size_t count) {
  if (by_instruction_) return add_blocks_by_instruction(state_, bytes, count);
  for (std::size_t i = 0; i < count; ++i) add_block(state_, bytes + i * kBlock);
}

void Sha256::add(std::string_view bytes) {
  const std::size_t begun = bytes_ % kBlock;
  bytes_ += bytes.size();
  if (begun > 0) {
    const std::size_t count = std::min(kBlock - begun, bytes.size());
    std::memcpy(part_.data() + begun, bytes.data(), count);
    bytes.remove_prefix(count);
    if (begun + count < kBlock) return;
    add_blocks(part_.data(), 1);
  }
  add_blocks(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size() / kBlock);
  bytes.remove_prefix(bytes.size() / kBlock * kBlock);
  std::copy(bytes.begin(), bytes.end(), part_.begin());
}

std::string Sha256::digest() {
  const std::uint64_t bits = 8 * bytes_;
  const std::size_t begun = bytes_ % kBlock;
  std::string end(1, '\x80');  // then zeros, and the number of bits as the last 8 bytes of a block
  end.resize((begun < kBlock - 8 ? kBlock : 2 * kBlock) - begun - 8);
  for (int shift = 56; shift >= 0; shift -= 8) end += static_cast<char>(bits >> shift);
  add(end);
  std::string text;
  for (const std::uint32_t word : state_)
    for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[word >> shift & 15];
  return text;
}

}  // namespace lockstep
