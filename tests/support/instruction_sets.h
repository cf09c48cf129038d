// The instruction sets of Lockstep's kernels, for tests that run each of them.
#pragma once

#include <array>
#include <string_view>

#include "src/base/table.h"
#include "src/device/cpu/instruction_set.h"

namespace lockstep {

inline constexpr std::array<std::string_view, 4> kSets{"baseline", "avx2", "avx512", "avx512_bf16"};

inline const InstructionSet& set_called(std::string_view name) {
  return find(instruction_sets(), name);
}

/// Whether this processor runs the kernels of `set`.
inline bool processor_has(std::string_view set) {
  if (set == "baseline") return true;
  if (set == "avx512_bf16") return __builtin_cpu_supports("avx512bf16");
  return set == "avx2"
             ? __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
             : __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

}  // namespace lockstep
