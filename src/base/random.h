// Counter-based random numbers (Philox4x32-10). They depend only on (seed, purpose, epoch, index):
// any rank, thread or device gets the same numbers in any order, and there is no state to save.
//
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "src/base/elementary.h"

namespace lockstep {

/// One block of Philox4x32-10.
constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                              std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// The purpose of a stream of numbers. The values are part of the meaning of a seed: never
/// renumber. Those from 6 on belong to augmentations, which name their own (src/data).
enum class Purpose : std::uint32_t {
  shuffle = 1,
  augment = 2,
  initialize = 3,
  dropout = 4,
  generate = 5
};

/// The endless stream of numbers for one (seed, purpose, epoch, index).
class Random {
 public:
  constexpr Random(std::uint64_t seed, Purpose purpose, std::uint32_t epoch, std::uint32_t index)
      : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
        counter_{0, static_cast<std::uint32_t>(purpose), epoch, index} {}

  constexpr std::uint32_t epoch() const { return counter_[2]; }
  /// 0 or 1, from the seed and the index only: the same for every purpose and epoch. A
  /// multiplicative hash needs fewer registers than a block of Philox.
  constexpr std::uint32_t coin() const {
    std::uint32_t mixed = counter_[3] * 0x9E3779B9 + key_[0];
    mixed = (mixed ^ (mixed >> 15)) * 0x85EBCA6B;
    return ((mixed ^ (mixed >> 13)) * 0xC2B2AE35) >> 31;
  }

  constexpr std::uint32_t next() {
    if (used_ == 4) {
      block_ = philox(counter_, key_);
      ++counter_[0];
      used_ = 0;
    }
    return block_[used_++];
  }

  /// Uniform in [0, 1), a multiple of 2^-24.
  constexpr float uniform() { return static_cast<float>(next() >> 8) * 0x1p-24f; }
  constexpr float uniform(float low, float high) {
    return std::fma(high - low, uniform(), low);  // rounded once by every compiler
  }

  /// Uniform in 0 .. count-1 (bias below count / 2^32).
  constexpr std::uint32_t below(std::uint32_t count) {
    return static_cast<std::uint32_t>((std::uint64_t{next()} * count) >> 32);
  }

  /// Standard normal, by Box and Muller; uses two numbers.
  float normal() {
    const double radius = std::sqrt(-2.0 * natural_log((next() + 1.0) * 0x1p-32));
    return static_cast<float>(radius * cosine_of_turns(next() * 0x1p-32));
  }

  /// Standard normal, drawn until it lies within two standard deviations.
  float truncated_normal() {
    for (;;) {
      const float value = normal();
      if (std::abs(value) <= 2.0f) return value;
    }
  }

 private:
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 4> block_{};
  int used_ = 4;
};

}  // namespace lockstep
