// The registry of arithmetics for CPU cores: which kernels compute dense layers, products and
// convolutions in fp32.
#pragma once

#include <span>
#include <string_view>

namespace lockstep {

struct Arithmetic {
  static constexpr std::string_view kind = "arithmetic";

  std::string_view name;
  std::string_view about;
  /// Lockstep's own kernels, with the same bits on every processor, instead of oneDNN's.
  /// Activations of 16 bits always use oneDNN.
  bool portable;
};

inline constexpr std::string_view kPortableArithmetic = "portable";
/// The number of the canonical order of src/device/cpu/gemm_body.h. A change of its bits raises it.
inline constexpr int kPortableVersion = 2;

/// The first one is the default.
std::span<const Arithmetic> arithmetics();

}  // namespace lockstep
