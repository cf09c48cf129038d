// The registry of instruction sets for CPU cores.
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
  unsigned onednn;              ///< bits of dnnl::cpu_isa; a wider set has more of them
};

/// "auto" is first; the others are ordered from narrow to wide.
std::span<const InstructionSet> instruction_sets();

/// The set called `name`. "auto": the widest set of this processor that ONEDNN_MAX_CPU_ISA allows.
/// From now on oneDNN uses no wider set in the whole process. Throws the usage Error if the
/// processor lacks the set, or if oneDNN was used before.
const InstructionSet& use_instruction_set(std::string_view name);

/// Whether oneDNN uses the set called `name` or a wider one.
bool uses_instruction_set(std::string_view name);

/// The instruction set that oneDNN uses: "AVX-512 with bf16".
std::string instruction_set_in_use();

}  // namespace lockstep
