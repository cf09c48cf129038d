#include "src/device/cpu/instruction_set.h"

#include <array>
#include <dnnl.hpp>

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
    InstructionSet{"auto", "the widest that the processor has", nullptr, 0},
    InstructionSet{"baseline", "what the whole program is compiled for", baseline::kernels,
                   bits(kBaseline)},
    InstructionSet{"avx2", "AVX2 with FMA", avx2::kernels, bits(cpu_isa::avx2)},
    InstructionSet{"avx512", "AVX-512", avx512::kernels, bits(cpu_isa::avx512_core)},
    InstructionSet{"avx512_bf16", "AVX-512 with products of bf16", avx512_bf16::kernels,
                   bits(cpu_isa::avx512_core_bf16)},
    InstructionSet{"amx", "AVX-512 with bf16 matrix units", avx512_bf16::kernels,
                   bits(cpu_isa::avx512_core_amx)},
};

unsigned in_use() { return bits(dnnl::get_effective_cpu_isa()); }

bool within(unsigned set, unsigned wider) { return (wider & set) == set; }

/// The widest of what oneDNN has in use; at least the baseline, or this program would not run.
const InstructionSet& widest() {
  for (std::size_t i = kInstructionSets.size() - 1; i > 1; --i) {
    if (within(kInstructionSets[i].onednn, in_use())) return kInstructionSets[i];
  }
  return kInstructionSets[1];
}

}  // namespace

std::span<const InstructionSet> instruction_sets() { return kInstructionSets; }

const InstructionSet& use_instruction_set(std::string_view name) {
  const InstructionSet& asked = find(instruction_sets(), name);
  if (asked.kernels == nullptr) return widest();
  dnnl::set_max_cpu_isa(static_cast<cpu_isa>(asked.onednn));  // refused after the first use
  if (!within(asked.onednn, in_use())) {
    fail_usage("--isa {}: there is {} at most on host {} (auto takes {}): leave --isa out", name,
               instruction_set_in_use(), host_name(), widest().name);
  }
  if (in_use() != asked.onednn) {
    fail_usage("--isa {}: oneDNN computes with {} in this process already", name,
               instruction_set_in_use());
  }
  return asked;
}

std::string instruction_set_in_use() {
  switch (dnnl::get_effective_cpu_isa()) {
    case cpu_isa::sse41:
      return "SSE4.1";
    case cpu_isa::avx:
      return "AVX";
    case cpu_isa::avx2:
      return "AVX2";
    case cpu_isa::avx512_core:
      return "AVX-512";
    case cpu_isa::avx512_core_vnni:
      return "AVX-512 VNNI";
    case cpu_isa::avx512_core_bf16:
      return "AVX-512 with bf16";
    case cpu_isa::avx512_core_amx:
      return "AVX-512 with AMX";
    default:
      return fmt::format("instruction set {:#x}", in_use());
  }
}

}  // namespace lockstep
