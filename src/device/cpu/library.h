// The library of kernels for CPU cores: oneDNN (src/device/cpu/onednn), or none (no_library.cc) in
// a build with LOCKSTEP_ONEDNN=OFF. Without one there is only portable arithmetic, in fp32.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "src/device/device.h"

namespace lockstep::library {

/// "oneDNN 2.6.3"; empty: none.
std::string name();

/// Whether the library has kernels for bf16 and this processor.
bool computes_bf16();

/// Plans of fp32 or bf16. They throw the library's own error if it has no kernel for bf16. Without
/// a library they throw the usage Error.
std::unique_ptr<AffinePlan> convolution(const ConvolutionSpec& spec);
std::unique_ptr<AffinePlan> dense(const DenseSpec& spec);
std::unique_ptr<ProductPlan> product(const ProductSpec& spec);

/// From now on the process uses no wider set than `set`, one of instruction_sets() except "auto".
/// Returns false if the widest set in use is another one: the processor lacks `set`, or the library
/// was used before. Without a library these sets are the processor's.
bool limit_to(std::string_view set);

/// Whether the process uses `set` or a wider one.
bool uses(std::string_view set);

/// The widest set in use: "AVX-512 with bf16".
std::string set_in_use();

}  // namespace lockstep::library
