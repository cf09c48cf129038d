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
  /// The plan for a layer, which `engine` must outlive; oneDNN's direct sums where the entry has
  /// nothing else for it. A pure function of the spec and the instruction set, never of the clock:
  /// another choice gives other last bits.
  std::unique_ptr<AffinePlan> (*plan)(const dnnl::engine& engine, const ConvolutionSpec& spec);
};

/// The menu, "auto" first.
std::span<const ConvolutionEntry> convolutions();

}  // namespace lockstep
