// Builds without oneDNN. The instruction sets are those of the processor.

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

const InstructionSet* limit = nullptr;  ///< the widest set that may be used; null: any

}  // namespace

std::string name() { return {}; }
bool computes_bf16() { return false; }

std::unique_ptr<AffinePlan> convolution(const ConvolutionSpec&) { fail_without(); }
std::unique_ptr<AffinePlan> dense(const DenseSpec&) { fail_without(); }
std::unique_ptr<ProductPlan> product(const ProductSpec&) { fail_without(); }

bool limit_to(std::string_view set) {
  limit = &find(instruction_sets(), set);
  return limit->runs_here();
}

bool uses(std::string_view set) {
  const InstructionSet& asked = find(instruction_sets(), set);
  return asked.runs_here() && (limit == nullptr || &asked <= limit);
}

std::string set_in_use() {
  std::string_view words;
  for (const InstructionSet& set : instruction_sets().subspan(1))
    if (uses(set.name)) words = set.in_words;
  return std::string(words);
}

}  // namespace lockstep::library
