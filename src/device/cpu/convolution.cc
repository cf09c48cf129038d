#include "src/device/cpu/convolution.h"

#include <array>
#include <cstdint>
#include <utility>

#include "src/base/check.h"
#include "src/base/round_up.h"
#include "src/device/cpu/library.h"
#include "src/device/cpu/matrix_units.h"

namespace lockstep {
namespace {

/// Whether the saved products outweigh the transforms. One core, batch 64, effective GFLOP/s
/// forward, backward data and backward weights:
///
///   processor            shape                  direct          Winograd
///   AVX-512, fp32        8x8, 64 -> 64, 3x3     183, 144, 163   429, 425, 343
///                        32x32, 16 -> 16, 3x3   156, 155, 143   191, 192, 172
///   AVX2, fp32           8x8, 64 -> 64, 3x3      54,  88,  62   117, 125, 121
///                        32x32, 16 -> 16, 3x3    70,  62,  44    80,  76,  74
///   bf16 products, bf16  8x8, 64 -> 64, 3x3     505, 481, 334   979, 1031, 1008
///                        32x32, 16 -> 16, 3x3   358, 349, 310   291, 294, 277
///
/// Filters are transformed for any number of tiles, so few tiles do not pay (AVX-512, ms of all
/// passes for batches of 1 and 16): 4x4, 512 -> 512, 3x3 takes 7.9 and 40 direct, 43 and 54 by
/// Winograd.
/// "auto" never chooses tiles of 2x2 outputs: they are not faster, only more accurate.
bool winograd_pays(const ConvolutionSpec& spec, int lanes) {
  // Matrix units do 16 times as many products per cycle in bf16 as registers do in fp32.
  if (spec.input.type != Type::f32 && has_matrix_units()) return false;
  const std::int64_t in = spec.input.x[3], out = spec.filters, pairs = in * out;
  const Shape y = spec.output();
  const auto points = [&](std::int64_t outputs) {  // of tiles of 4, and of one with the rest
    return outputs + ceil_div(outputs, 4) * (spec.kernel - 1);
  };
  const std::int64_t saved =  // products for each pair of channels
      y[0] * (y[1] * y[2] * spec.kernel * spec.kernel - points(y[1]) * points(y[2]));
  if (saved < 3 * (in + out)) return false;
  if (lanes < 16) return pairs >= 16 * 16;
  return pairs >= (spec.kernel == 5 ? 32 * 16 : 32 * 32);
}

/// Weights gradients, one core with AMX, batch 64, ms, by oneDNN and by Lockstep:
///   12x12, 64 -> 64, 5x5     3.8, 1.9
///   24x24, 3 -> 64, 5x5      1.5, 1.0
///   8x8, 64 -> 64, 3x3       0.53, 0.58
///   31x31, 32 -> 64, 3x3     1.8, 3.2
bool matrix_units_pay(const ConvolutionSpec& spec) { return spec.kernel >= 5; }

/// Weights gradients, one core, batch 64, fp32, ms, by oneDNN and by lines, with AVX2 and AVX-512:
///   24x24, 3 -> 64, 5x5     8.6, 5.7    2.9, 2.8
///   32x32, 3 -> 64, 3x3     8.0, 5.7    3.1, 2.2
///   1x300, 7 -> 64, 1x5     3.9, 1.3    1.4, 0.8
bool lines_pay(const ConvolutionSpec& spec) {
  return spec.input.type == Type::f32 && spec.input.x[3] < 8;
}

using Plan = std::unique_ptr<AffinePlan>;

bool portable(const CpuMeans& means, const ConvolutionSpec& spec) {
  return means.portable && spec.input.type == Type::f32;
}

Plan direct(const CpuMeans& means, const ConvolutionSpec& spec) {
  if (portable(means, spec)) {
    // The kernels have offsets of 31 bits within an image and its margins.
    const Shape& x = spec.input.x;
    const std::int64_t edge = 2 * (spec.kernel - 1) * spec.dilation;
    require((x[1] + edge) * (x[2] + edge) * x[3] <= INT32_MAX,
            "images of {}x{} with {} channels are too large for --arithmetic portable. Pass "
            "--arithmetic fast.",
            x[1], x[2], x[3]);
    return means.kernels.portable_convolution(spec);
  }
  return library::convolution(spec);
}
/// `kernel` has a plan, or null for another layer.
template <auto kernel>
Plan kernel_or_direct(const CpuMeans& means, const ConvolutionSpec& spec) {
  Plan plan = (means.kernels.*kernel)(spec);
  return plan ? std::move(plan) : direct(means, spec);
}
constexpr auto winograd2 = kernel_or_direct<&Kernels::winograd2>,
               winograd4 = kernel_or_direct<&Kernels::winograd4>,
               depthwise = kernel_or_direct<&Kernels::depthwise>;
Plan matrix_units(const CpuMeans& means, const ConvolutionSpec& spec) {
  Plan plan = direct(means, spec);
  if (!matrix_units_serve(spec) || !has_matrix_units()) return plan;
  return make_matrix_units_convolution(std::move(plan), spec);
}
Plan lines(const CpuMeans& means, const ConvolutionSpec& spec) {
  return means.kernels.lines(direct(means, spec), spec);
}
Plan fastest(const CpuMeans& means, const ConvolutionSpec& spec) {
  if (spec.groups > 1) return depthwise(means, spec);
  if (lines_pay(spec)) return lines(means, spec);
  // Portable bits do not depend on the width of registers. Against portable direct sums, few
  // channels pay on wide registers too.
  const int lanes = portable(means, spec) ? 8 : means.kernels.lanes;
  if (winograd_pays(spec, lanes)) return winograd4(means, spec);
  return matrix_units_pay(spec) ? matrix_units(means, spec) : direct(means, spec);
}

constexpr std::array kConvolutions{
    ConvolutionEntry{"auto", "the fastest algorithm for a layer's shape and type", fastest},
    ConvolutionEntry{"direct", "direct sums: the smallest rounding errors", direct},
    ConvolutionEntry{"winograd2", "Winograd's F(2x2,3x3) and F(2x2,5x5), else direct sums",
                     winograd2},
    ConvolutionEntry{"winograd4", "Winograd's F(4x4,3x3) and F(4x4,5x5), else direct sums",
                     winograd4},
    ConvolutionEntry{"matrix_units", "bf16 weight gradients on AMX tiles, the rest by direct sums",
                     matrix_units},
    ConvolutionEntry{"lines", "fp32 weight gradients of few channels by filter lines, else direct",
                     lines},
    ConvolutionEntry{"depthwise", "depthwise filters of 3x3, 5x5 and 7x7, else direct sums",
                     depthwise},
};

}  // namespace

std::span<const ConvolutionEntry> convolutions() { return kConvolutions; }

}  // namespace lockstep
