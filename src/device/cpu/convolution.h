// The registry of convolution algorithms for CPU cores.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "src/device/cpu/kernels.h"

namespace lockstep {

struct CpuMeans {
  const Kernels& kernels;
  bool portable = false;  ///< fp32 without the library, with the same bits on every processor
};

struct ConvolutionEntry {
  static constexpr std::string_view kind = "convolution";

  std::string_view name;
  std::string_view about;
  /// The plan for a layer. It uses direct sums, the library's or the portable ones, if the entry
  /// does not support the layer. The choice decides the last bits of results. So it depends only on
  /// the spec and the instruction set, never on measurements. Portable plans do not depend on the
  /// instruction set.
  std::unique_ptr<AffinePlan> (*plan)(const CpuMeans& means, const ConvolutionSpec& spec);
};

/// "auto" is first and chooses among the others.
std::span<const ConvolutionEntry> convolutions();

}  // namespace lockstep
