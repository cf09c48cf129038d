#include "src/cpu/convolution.h"

#include <array>
#include <dnnl.hpp>

#include "src/cpu/affine.h"
#include "src/cpu/winograd.h"

namespace lockstep {
namespace {

/// bf16 matrix units multiply sixteen times as much in a cycle as fp32 registers do.
bool has_matrix_units() { return dnnl::get_effective_cpu_isa() == dnnl::cpu_isa::avx512_core_amx; }

/// Where the products that are saved outweigh the transforms. One core with AVX-512, fp32, batch
/// 16, effective GFLOP/s forward, backward data and backward weights, direct and fast:
///   12x12, 64 -> 64, 5x5     324, 324, 317    405, 548, 498
///   31x31, 32 -> 64, 3x3     301, 256, 256    295, 336, 300
///   8x8, 64 -> 64, 3x3       338, 324, 305    390, 414, 421
///   16x16, 32 -> 32, 3x3     312, 311, 312    316, 330, 328
///   32x32, 16 -> 16, 3x3     264, 291, 269    193, 196, 181
bool pays(const ConvolutionSpec& spec) {
  if (spec.input.type != Type::f32 && has_matrix_units()) return false;
  const std::int64_t pairs = spec.input.x[3] * spec.filters;
  return pairs >= (spec.kernel == 5 ? 32 * 16 : 64 * 32);
}

constexpr std::array kConvolutions{
    ConvolutionEntry{"auto", "whichever is faster for a layer's shape and type", pays},
    ConvolutionEntry{"direct", "oneDNN's direct sums: the smallest rounding errors",
                     [](const ConvolutionSpec&) { return false; }},
    ConvolutionEntry{"winograd", "Winograd's F(4x4,3x3) and F(4x4,5x5) wherever they can be had",
                     [](const ConvolutionSpec&) { return true; }},
};

}  // namespace

std::span<const ConvolutionEntry> convolutions() { return kConvolutions; }

std::unique_ptr<AffinePlan> make_cpu_convolution(const ConvolutionEntry& entry,
                                                 const dnnl::engine& engine,
                                                 const ConvolutionSpec& spec) {
  return winograd_serves(spec) && entry.fast(spec) ? make_winograd_convolution(spec)
                                                   : make_onednn_convolution(engine, spec);
}

}  // namespace lockstep
