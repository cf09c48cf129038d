#include "src/device/cpu/instruction_set.h"

#include <array>
#include <dnnl.hpp>
#include <utility>

#include "src/base/machine.h"
#include "src/base/table.h"

namespace lockstep {
namespace {

using dnnl::cpu_isa;

constexpr unsigned bits(cpu_isa isa) { return static_cast<unsigned>(isa); }

#if defined(__AVX512BF16__)
constexpr cpu_isa kBaseline = cpu_isa::avx512_core_bf16;
#elif defined(__AVX512F__)
constexpr cpu_isa kBaseline = cpu_isa::avx512_core;
#elif defined(__AVX2__)
constexpr cpu_isa kBaseline = cpu_isa::avx2;
#elif defined(__AVX__)
constexpr cpu_isa kBaseline = cpu_isa::avx;
#else
constexpr cpu_isa kBaseline = cpu_isa::sse41;
#endif

constexpr std::array kInstructionSets{
    InstructionSet{"auto", "the widest set of the processor", nullptr, 0},
    InstructionSet{"baseline", "the set that the whole program is compiled for", baseline::kernels,
                   bits(kBaseline)},
    InstructionSet{"avx2", "AVX2 with FMA", avx2::kernels, bits(cpu_isa::avx2)},
    InstructionSet{"avx512", "AVX-512", avx512::kernels, bits(cpu_isa::avx512_core)},
    InstructionSet{"avx512_bf16", "AVX-512 with products of bf16", avx512_bf16::kernels,
                   bits(cpu_isa::avx512_core_bf16)},
    InstructionSet{"amx", "AVX-512 with bf16 matrix units", avx512_bf16::kernels,
                   bits(cpu_isa::avx512_core_amx)},
};

unsigned in_use() { return bits(dnnl::get_effective_cpu_isa()); }

bool in_use(unsigned set) { return (in_use() & set) == set; }

/// The widest set within oneDNN's. At least the baseline, or this program would not run.
const InstructionSet& widest() {
  for (std::size_t i = kInstructionSets.size() - 1; i > 1; --i) {
    if (in_use(kInstructionSets[i].onednn)) return kInstructionSets[i];
  }
  return kInstructionSets[1];
}

}  // namespace

std::span<const InstructionSet> instruction_sets() { return kInstructionSets; }

const InstructionSet& use_instruction_set(std::string_view name) {
  const InstructionSet& asked = find(instruction_sets(), name);
  if (asked.kernels == nullptr) return widest();
  dnnl::set_max_cpu_isa(static_cast<cpu_isa>(asked.onednn));  // without effect after the first use
  if (!in_use(asked.onednn)) {
    fail_usage("--isa {}: host {} supports {} at most (auto uses {}); leave out --isa", name,
               host_name(), instruction_set_in_use(), widest().name);
  }
  if (in_use() != asked.onednn) {
    fail_usage("--isa {}: oneDNN already uses {} in this process", name, instruction_set_in_use());
  }
  return asked;
}

bool uses_instruction_set(std::string_view name) {
  return in_use(find(instruction_sets(), name).onednn);
}

std::string instruction_set_in_use() {
  constexpr std::pair<cpu_isa, const char*> names[] = {
      {cpu_isa::sse41, "SSE4.1"},
      {cpu_isa::avx, "AVX"},
      {cpu_isa::avx2, "AVX2"},
      {cpu_isa::avx512_core, "AVX-512"},
      {cpu_isa::avx512_core_vnni, "AVX-512 VNNI"},
      {cpu_isa::avx512_core_bf16, "AVX-512 with bf16"},
      {cpu_isa::avx512_core_amx, "AVX-512 with AMX"}};
  for (const auto& [isa, name] : names) {
    if (bits(isa) == in_use()) return name;
  }
  return fmt::format("instruction set {:#x}", in_use());
}

}  // namespace lockstep
