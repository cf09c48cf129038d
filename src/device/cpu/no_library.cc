// Builds without oneDNN. The instruction sets are those of the processor.

#include <algorithm>

#include "src/base/table.h"
#include "src/device/cpu/instruction_set.h"
#include "src/device/cpu/library.h"

namespace lockstep::library {
namespace {

[[noreturn]] void fail_without() {
  fail_usage(
      "CPU cores compute only portable fp32 in this build. Pass --precision fp32, or build with "
      "-DLOCKSTEP_ONEDNN=ON.");
}

/// The sets in use. "auto" is none of them.
std::span<const InstructionSet>& sets() {
  static std::span<const InstructionSet> within = instruction_sets().subspan(1);
  return within;
}

const InstructionSet& widest() {
  const auto all = sets();
  const auto found =
      std::find_if(all.rbegin(), all.rend(), [](const auto& set) { return set.runs_here(); });
  return found == all.rend() ? all.front() : *found;
}

}  // namespace

std::string name() { return {}; }
bool computes_bf16() { return false; }

std::unique_ptr<AffinePlan> convolution(const ConvolutionSpec&) { fail_without(); }
std::unique_ptr<AffinePlan> dense(const DenseSpec&) { fail_without(); }
std::unique_ptr<ProductPlan> product(const ProductSpec&) { fail_without(); }

bool limit_to(std::string_view set) {
  const InstructionSet& asked = find(instruction_sets(), set);
  const auto count = static_cast<std::size_t>(&asked - instruction_sets().data());
  sets() = instruction_sets().subspan(1, count);
  return widest().kernels == asked.kernels;
}

bool uses(std::string_view set) {
  const InstructionSet* found = find_or_null(sets(), set);
  return found && found->runs_here();
}

std::string set_in_use() { return std::string(widest().in_words); }

}  // namespace lockstep::library
