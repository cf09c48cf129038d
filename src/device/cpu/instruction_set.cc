#include "src/device/cpu/instruction_set.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

#include <array>

#include "src/base/machine.h"
#include "src/base/table.h"
#include "src/device/cpu/library.h"

namespace lockstep {
namespace {

bool always() { return true; }

#ifdef __x86_64__
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
bool has_avx512_bf16() { return has_avx512() && __builtin_cpu_supports("avx512bf16"); }
bool has_amx() {
  constexpr unsigned kTile = 1 << 24, kBf16 = 1 << 22;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return has_avx512_bf16() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & kTile) && (d & kBf16);
}
#endif

constexpr std::array kInstructionSets{
    InstructionSet{"auto", "the widest set of the processor", nullptr, always, "auto"},
    InstructionSet{"baseline", "the set that the whole program is compiled for", baseline::kernels,
                   always, "the baseline"},
#ifdef __x86_64__
    InstructionSet{"avx2", "AVX2 with FMA", avx2::kernels, has_avx2, "AVX2"},
    InstructionSet{"avx512", "AVX-512", avx512::kernels, has_avx512, "AVX-512"},
    InstructionSet{"avx512_bf16", "AVX-512 with products of bf16", avx512_bf16::kernels,
                   has_avx512_bf16, "AVX-512 with bf16"},
    InstructionSet{"amx", "AVX-512 with bf16 matrix units", avx512_bf16::kernels, has_amx,
                   "AVX-512 with AMX"},
#else
    InstructionSet{"neon", "NEON, a part of every 64-bit ARM processor", baseline::kernels, always,
                   "NEON"},
#endif
};

/// The widest set within the library's. At least the baseline, or this program would not run.
const InstructionSet& widest() {
  for (std::size_t i = kInstructionSets.size() - 1; i > 1; --i) {
    if (library::uses(kInstructionSets[i].name)) return kInstructionSets[i];
  }
  return kInstructionSets[1];
}

}  // namespace

std::span<const InstructionSet> instruction_sets() { return kInstructionSets; }

const InstructionSet& use_instruction_set(std::string_view name) {
  const InstructionSet& asked = find(instruction_sets(), name);
  if (asked.kernels == nullptr) return widest();
  // oneDNN takes a limit only before its first use. A later limit has no effect, and the bits would
  // be those of another set.
  const bool limited = library::limit_to(name);
  if (!library::uses(name)) {
    fail_usage("--isa {}: host {} supports {} at most (auto uses {}); leave out --isa", name,
               host_name(), library::set_in_use(), widest().name);
  }
  if (!limited) {
    fail_usage("--isa {}: {} already uses {} in this process", name, library::name(),
               library::set_in_use());
  }
  return asked;
}

}  // namespace lockstep
