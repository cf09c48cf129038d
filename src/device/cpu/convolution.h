// The registry of ways to convolve on CPU cores, convolution.cc.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "src/device/cpu/kernels.h"

namespace dnnl {
struct engine;
}

namespace lockstep {

/// What plans for CPU cores are made with.
struct CpuMeans {
  const dnnl::engine& engine;
  const Kernels& kernels;
};

struct ConvolutionEntry {
  static constexpr std::string_view kind = "convolution";

  std::string_view name;
  std::string_view about;
  /// The plan for a layer, which the engine must outlive; oneDNN's direct sums where the entry has
  /// nothing else for it. A pure function of the spec and the instruction set, never of the clock:
  /// another choice gives other last bits.
  std::unique_ptr<AffinePlan> (*plan)(const CpuMeans& means, const ConvolutionSpec& spec);
  /// What implementation() says of a plan that is not oneDNN's direct sums alone.
  std::string_view mark = {};
};

/// The registry, "auto" first, which chooses among the others.
std::span<const ConvolutionEntry> convolutions();

}  // namespace lockstep
