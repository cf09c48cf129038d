// The menu of ways to convolve on CPU cores, convolution.cc.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "src/device.h"

namespace dnnl {
struct engine;
}

namespace lockstep {

struct ConvolutionEntry {
  static constexpr std::string_view kind = "convolution";

  std::string_view name;
  std::string_view about;
  /// Whether a layer that Winograd's algorithm serves (src/cpu/winograd.h) goes by it rather than
  /// by oneDNN's direct sums, in all passes. A pure function of the spec and the instruction set,
  /// never of the clock: another choice gives other last bits.
  bool (*fast)(const ConvolutionSpec& spec);
};

/// The menu, "auto" first.
std::span<const ConvolutionEntry> convolutions();

/// `engine` must outlive the plan.
std::unique_ptr<AffinePlan> make_cpu_convolution(const ConvolutionEntry& entry,
                                                 const dnnl::engine& engine,
                                                 const ConvolutionSpec& spec);

}  // namespace lockstep
