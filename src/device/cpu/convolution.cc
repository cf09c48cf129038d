#include "src/device/cpu/convolution.h"

#include <array>
#include <dnnl.hpp>
#include <utility>

#include "src/base/round_up.h"
#include "src/device/cpu/affine.h"
#include "src/device/cpu/matrix_units.h"

namespace lockstep {
namespace {

/// Where the products that are saved outweigh the transforms. One core with AVX-512, fp32, batch
/// 16, effective GFLOP/s forward, backward data and backward weights, direct and fast:
///   12x12, 64 -> 64, 5x5     324, 324, 317    405, 548, 498
///   31x31, 32 -> 64, 3x3     301, 256, 256    295, 336, 300
///   8x8, 64 -> 64, 3x3       338, 324, 305    390, 414, 421
///   16x16, 32 -> 32, 3x3     312, 311, 312    316, 330, 328
///   32x32, 16 -> 16, 3x3     264, 291, 269    193, 196, 181
/// Another with AVX-512, batch 64, where a step of resnet20 took 1 to 9 % less by Winograd:
///   8x8, 64 -> 64, 3x3       183, 144, 163    429, 425, 343
///   16x16, 32 -> 32, 3x3     170, 169, 153    347, 327, 300
///   32x32, 16 -> 16, 3x3     156, 155, 143    191, 192, 172
/// One with AVX2, batch 64, where products are dearer beside the loads and stores of transforms:
///   8x8, 64 -> 64, 3x3        54, 88, 62      117, 125, 121
///   16x16, 32 -> 32, 3x3      75, 76, 57       98, 101, 91
///   32x32, 16 -> 16, 3x3      70, 62, 44       80, 76, 74
/// One with AVX-512 and products of bf16, batch 64, bf16; 5x5 by products of fp32:
///   8x8, 64 -> 64, 3x3       505, 481, 334    979, 1031, 1008
///   16x16, 32 -> 32, 3x3     472, 503, 352    674, 687, 656
///   32x32, 16 -> 16, 3x3     358, 349, 310    291, 294, 277
///   12x12, 64 -> 64, 5x5     580, 581, 409    1008, 1030, 1009
/// Filters are transformed however few tiles there are, and cost more where they are too many for a
/// cache. The other one with AVX-512, ms of all three passes for batches of 1, 4, 16 and 64, direct
/// and fast:
///   32x32, 64 -> 64, 3x3     2.0, 6.0, 28, 131     0.8, 3.0, 9.1, 51
///   8x8, 256 -> 256, 3x3     2.9, 9.1, 33, 102     6.1, 8.1, 21, 55
///   4x4, 512 -> 512, 3x3     7.9, 14, 40, 122      43, 42, 54, 78
/// Tiles of 2x2 outputs take fewer products than those of 4x4 only for outputs of two lines or
/// columns, and as many for 5x5 and 6x6 by 3x3, where they were as fast: "auto" leaves them to
/// whoever wants the smaller errors.
bool winograd_pays(const ConvolutionSpec& spec, int lanes) {
  // bf16 matrix units multiply sixteen times as much in a cycle as fp32 registers do.
  if (spec.input.type != Type::f32 && has_matrix_units()) return false;
  const std::int64_t in = spec.input.x[3], out = spec.filters, pairs = in * out;
  const Shape y = spec.output();
  const std::int64_t tiles = y[0] * ceil_div(y[1], 4) * ceil_div(y[2], 4), edge = spec.kernel + 3;
  const std::int64_t saved =  // products for each pair of channels
      y[0] * y[1] * y[2] * spec.kernel * spec.kernel - tiles * edge * edge;
  if (saved < 3 * (in + out)) return false;
  return pairs >= (lanes < 16 ? 16 * 16 : spec.kernel == 5 ? 32 * 16 : 32 * 32);
}

/// Weights gradients, one core with AMX, batch 64, ms, oneDNN's and ours:
///   12x12, 64 -> 64, 5x5     3.8, 1.9
///   24x24, 3 -> 64, 5x5      1.5, 1.0
///   8x8, 64 -> 64, 3x3       0.53, 0.58
///   31x31, 32 -> 64, 3x3     1.8, 3.2
bool matrix_units_pay(const ConvolutionSpec& spec) { return spec.kernel >= 5; }

/// Weights gradients, one core, batch 64, fp32, ms, by oneDNN and by lines: with AVX2, two runs of
/// each in turns, and with AVX-512, medians of three:
///   24x24, 3 -> 64, 5x5     8.6, 7.2    5.7, 6.3        2.9    2.8
///   32x32, 3 -> 64, 3x3     8.0, 8.5    5.7, 4.7        3.1    2.2
///   32x32, 3 -> 16, 3x3     1.2, 1.3    1.3, 1.0
///   1x300, 7 -> 64, 1x5     3.9, 5.4    1.3, 1.2        1.4    0.8
bool lines_pay(const ConvolutionSpec& spec) {
  return spec.input.type == Type::f32 && spec.input.x[3] < 8;
}

using Plan = std::unique_ptr<AffinePlan>;

Plan direct(const CpuMeans& means, const ConvolutionSpec& spec) {
  return make_onednn_convolution(means.engine, spec);
}
Plan winograd2(const CpuMeans& means, const ConvolutionSpec& spec) {
  Plan plan = means.kernels.winograd2(spec);
  return plan ? std::move(plan) : direct(means, spec);
}
Plan winograd4(const CpuMeans& means, const ConvolutionSpec& spec) {
  Plan plan = means.kernels.winograd4(spec);
  return plan ? std::move(plan) : direct(means, spec);
}
Plan matrix_units(const CpuMeans& means, const ConvolutionSpec& spec) {
  Plan plan = direct(means, spec);
  if (!matrix_units_serve(spec) || !has_matrix_units()) return plan;
  return make_matrix_units_convolution(std::move(plan), spec);
}
Plan lines(const CpuMeans& means, const ConvolutionSpec& spec) {
  return means.kernels.lines(direct(means, spec), spec);
}
Plan fastest(const CpuMeans& means, const ConvolutionSpec& spec) {
  if (lines_pay(spec)) return lines(means, spec);
  if (winograd_pays(spec, means.kernels.lanes)) return winograd4(means, spec);
  return matrix_units_pay(spec) ? matrix_units(means, spec) : direct(means, spec);
}

constexpr std::array kConvolutions{
    ConvolutionEntry{"auto", "whichever is faster for a layer's shape and type", fastest},
    ConvolutionEntry{"direct", "oneDNN's direct sums: the smallest rounding errors", direct},
    ConvolutionEntry{"winograd2", "Winograd's F(2x2,3x3) and F(2x2,5x5) wherever they can be had",
                     winograd2, "Winograd"},
    ConvolutionEntry{"winograd4", "Winograd's F(4x4,3x3) and F(4x4,5x5) wherever they can be had",
                     winograd4, "Winograd"},
    ConvolutionEntry{"matrix_units",
                     "bf16 weights gradients by AMX tiles of our own, the rest by oneDNN",
                     matrix_units, "by matrix units"},
    ConvolutionEntry{"lines",
                     "fp32 weights gradients of few channels by lines of the filter, the rest by "
                     "oneDNN",
                     lines, "by lines"},
};

}  // namespace

std::span<const ConvolutionEntry> convolutions() { return kConvolutions; }

}  // namespace lockstep
