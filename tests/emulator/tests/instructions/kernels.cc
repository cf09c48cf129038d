// Translated kernels of kernels.ptx, and instructions over many numbers against C++'s arithmetic.
#include <gtest/gtest.h>

#include <bit>
#include <cfenv>
#include <cmath>
#include <functional>
#include <random>
#include <stdexcept>

#include "tests/emulator/tests/instructions/translated.h"

namespace emulator {
namespace {

using Words = std::vector<std::uint32_t>;

std::uint64_t place(const void* data) { return reinterpret_cast<std::uint64_t>(data); }

TEST(Kernels, ParametersLieAsNvccLaysThemOut) {
  const Kernel& kernel = find_kernel("swap");
  ASSERT_EQ(kernel.count, 2u);
  EXPECT_EQ(kernel.layout[0][1], 3u);
  EXPECT_EQ(kernel.layout[1][0], 8u);
  EXPECT_EQ(kernel.layout[1][1], 8u);
  EXPECT_EQ(kernel.bytes, 16u);
  EXPECT_EQ(find_kernel("barrier").count, 0u);
}

TEST(Kernels, CallFunctionsAndBranch) {
  std::uint32_t result = 0;
  run_kernel("call", {place(&result), 3});
  EXPECT_EQ(result, 9u);
  EXPECT_EQ(accesses, (std::vector<Access>{{&result, 4, true, false}})) << "not the table's";
  for (const auto& [n, expected] : {std::pair{4u, 10u}, {0u, 7u}}) {
    run_kernel("loop", {place(&result), n});
    EXPECT_EQ(result, expected);
  }
}

TEST(Kernels, OnlyFmaRoundsOnce) {
  alignas(8) float numbers[5] = {1 + 0x1p-12f, 1 + 0x1p-11f};
  run_kernel("contraction", {place(numbers)});
  EXPECT_EQ(numbers[2], 0.0f);
  EXPECT_EQ(numbers[3], 0x1p-24f);
  EXPECT_EQ(numbers[4], 0x1.000002p0f) << "rounded up, although g++ knows the sum";
  const std::vector<Access> expected = {
      {numbers, 8, false, false}, {numbers + 2, 8, true, false}, {numbers + 4, 4, true, false}};
  EXPECT_EQ(accesses, expected);
}

TEST(Kernels, VectorsVariablesAndBlocksAreTheThreadsOwn) {
  alignas(16) std::uint32_t words[6] = {0x04030201, 0x08070605, 0, 0, 0x8000};
  run_kernel("swap", {0, place(words)});
  const Words expected = {0x08070605, 0x04030201, 0x08070605, 0x04030201, 0xff808005, 0x04030201};
  EXPECT_EQ(Words(words, words + 6), expected);
  EXPECT_EQ(accesses.size(), 7u) << "those of variables are not checked";
}

TEST(Kernels, AtomicsReturnTheOldValue) {
  alignas(8) std::uint32_t words[10] = {10, 5, 8, 0, 1, 2, 2};
  run_kernel("atomics", {place(words)});
  EXPECT_EQ(Words(words, words + 10), (Words{15, 5, 9, 0, 1, 3, 0, 0, 10, 8}));
  EXPECT_EQ(accesses[3], (Access{words + 4, 8, true, true}));
}

TEST(Kernels, CarriesReachTheNextWord) {
  alignas(16) std::uint32_t words[12] = {0xffffffff, 5, 2, 7};
  run_kernel("carry", {place(words)});
  // 7:2 + 5:ffffffff = 13:1; 7:2 - 5:ffffffff = 1:3; ffffffff * 2 + 7:5 = 9:3
  EXPECT_EQ(Words(words + 4, words + 12), (Words{1, 13, 0, 0, 3, 1, 3, 9}));
}

TEST(Kernels, ShufflesStayInTheirSegment) {
  alignas(8) std::uint32_t words[4] = {};
  thread_idx.x = 32 + 3;
  run_kernel("shuffle", {place(words)});
  thread_idx.x = 0;
  // lane 10, and then its own, because lane 10 is beyond the segment's end
  EXPECT_EQ(Words(words, words + 4), (Words{10, 0, 3, 0}));
}

TEST(Kernels, AnUnknownInstructionStops) {
  const std::pair<std::string, std::string> unknown[] = {
      {"barrier", "bar.sync"},
      {"rounded_away", "cvt.rna.tf32.f32"},
      {"call_of_another_file", "call of elsewhere"},
      {"float_atomic", "red.global.add.f32"},
      {"three_numbers", "max.f32"},
      {"shared_memory", ".shared .align 4 .b8 sums[128]"}};
  for (const auto& [kernel, instruction] : unknown) {
    try {
      run_kernel(kernel, {});
      ADD_FAILURE() << kernel;
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(error.what(), kernel + ": " + instruction);
    }
  }
}

// --- against C++ --------------------------------------------------------------------------------

std::uint64_t bits(float value) {
  return std::isnan(value) ? 0x7fffffff : std::bit_cast<std::uint32_t>(value);
}

TEST(Instructions, EachRoundingIsThatOfTheProcessor) {
  const std::pair<std::string, int> modes[] = {
      {".rn", FE_TONEAREST}, {".rz", FE_TOWARDZERO}, {".rm", FE_DOWNWARD}, {".rp", FE_UPWARD}};
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    // near 1 each second time, so that sums cancel; else any bits
    const auto number = [&] {
      const std::uint32_t word = random();
      return std::bit_cast<float>(i % 2 ? word : (word & 0x80ffffff) | 0x3f000000);
    };
    const volatile float a = number(), b = number(), c = number();
    const std::uint64_t word = std::uint64_t{random()} << 32 | random();
    const volatile double wide =
        i % 2 ? std::bit_cast<double>(word) : a * (1 + 0x1p-40 * (word & 7));
    const std::uint64_t x = bits(a), y = bits(b), w = std::bit_cast<std::uint64_t>(double{wide});
    for (const auto& [mode, rounding] : modes) {
      std::fesetround(rounding);
      const volatile float sum = a + b, product = a * b, fused = std::fma(a, b, c),
                           quotient = a / b, narrow = static_cast<float>(wide);
      std::fesetround(FE_TONEAREST);
      ASSERT_EQ(run("add" + mode + ".f32", {x, y}), bits(sum)) << mode << ' ' << a << ' ' << b;
      ASSERT_EQ(run("mul" + mode + ".f32", {x, y}), bits(product)) << mode << ' ' << a << ' ' << b;
      ASSERT_EQ(run("div" + mode + ".f32", {x, y}), bits(quotient)) << mode << ' ' << a << ' ' << b;
      ASSERT_EQ(run("fma" + mode + ".f32", {x, y, bits(c)}), bits(fused)) << mode << ' ' << a;
      ASSERT_EQ(run("cvt" + mode + ".f32.f64", {w}), bits(narrow)) << mode << ' ' << wide;
    }
  }
  EXPECT_EQ(std::fegetround(), FE_TONEAREST) << "left as it was";
}

/// Each number of 16 bits below `end`, and what lies between it and the next one.
void expect_16_bits(const std::string& type, int fraction_bits, int least, std::uint32_t end) {
  const auto value = [&](std::uint32_t half) {
    const int one = 1 << fraction_bits, exponent = half >> fraction_bits, fraction = half % one;
    return exponent == 0 ? std::ldexp(float(fraction), least)
                         : std::ldexp(float(one + fraction), least + exponent - 1);
  };
  for (std::uint32_t half = 0; half < end; ++half) {
    const float low = value(half), middle = low + (value(half + 1) - low) / 2;
    for (const std::uint32_t sign : {0u, 0x8000u}) {
      const std::uint64_t low_word = bits(sign ? -low : low), word = bits(sign ? -middle : middle);
      ASSERT_EQ(run("cvt.f32." + type, {half | sign}), low_word) << half;
      for (const std::uint64_t between : {low_word, word - 1, word, word + 1}) {
        const bool up = between > word || (between == word && half % 2 == 1);
        ASSERT_EQ(run("cvt.rn." + type + ".f32", {between}), (half + up) | sign) << half;
        ASSERT_EQ(run("cvt.rz." + type + ".f32", {between}), half | sign) << half;
      }
    }
  }
}

TEST(Instructions, EveryNumberOf16BitsConverts) {
  expect_16_bits("f16", 10, -24, 0x7c00);
  expect_16_bits("bf16", 7, -133, 0x7f7f);
}

TEST(Instructions, ComparisonsWithNanAreFalseUnlessUnordered) {
  // results for 1 and 2, 2 and 2, 3 and 2, NaN and 2, 2 and NaN
  const std::pair<std::string, const char*> tested[] = {
      {"eq", "01000"},  {"ne", "10100"},  {"lt", "10000"},  {"le", "11000"},  {"gt", "00100"},
      {"ge", "01100"},  {"equ", "01011"}, {"neu", "10111"}, {"ltu", "10011"}, {"leu", "11011"},
      {"gtu", "00111"}, {"geu", "01111"}, {"num", "11100"}, {"nan", "00011"}};
  const float numbers[][2] = {{1, 2}, {2, 2}, {3, 2}, {NAN, 2}, {2, NAN}};
  for (const auto& [comparison, expected] : tested) {
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(run("setp." + comparison + ".f32", {bits(numbers[i][0]), bits(numbers[i][1])}),
                expected[i] - '0')
          << comparison << ' ' << i;
    }
  }
}

}  // namespace
}  // namespace emulator
