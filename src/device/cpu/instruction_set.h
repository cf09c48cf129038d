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
  bool (*runs_here)();          ///< whether this processor has the set
  std::string_view in_words;    ///< "AVX-512 with bf16"
};

/// "auto" is first, then "baseline"; the others are ordered from narrow to wide. They are those of
/// the processor's family.
std::span<const InstructionSet> instruction_sets();

/// The set called `name`. "auto": the widest set of this processor that ONEDNN_MAX_CPU_ISA allows.
/// From now on src/device/cpu/library.h uses no wider set in the whole process. Throws the usage
/// Error if the processor lacks the set, or if the library was used before.
const InstructionSet& use_instruction_set(std::string_view name);

}  // namespace lockstep
