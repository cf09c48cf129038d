// The registry of instruction sets that CPU cores may compute with, instruction_set.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "src/device/cpu/kernels.h"

namespace lockstep {

struct InstructionSet {
  static constexpr std::string_view kind = "instruction set";

  std::string_view name;
  std::string_view about;
  const Kernels& (*kernels)();  ///< null for "auto"
  unsigned onednn;              ///< dnnl::cpu_isa: bits, of which a wider set has more
};

/// The registry, "auto" first, then from narrow to wide.
std::span<const InstructionSet> instruction_sets();

/// The set to compute with: the one called `name`, or for "auto" the widest that this processor has
/// and ONEDNN_MAX_CPU_ISA allows. oneDNN takes none wider from now on, in the whole process, which
/// it can be told before its first use alone. Throws the usage Error where the processor has not
/// got it, or it is too late.
const InstructionSet& use_instruction_set(std::string_view name);

/// What oneDNN computes with: "AVX-512 with bf16".
std::string instruction_set_in_use();

}  // namespace lockstep
