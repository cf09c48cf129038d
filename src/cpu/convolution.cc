#include "src/cpu/convolution.h"

#include <array>
#include <dnnl.hpp>
#include <utility>

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
bool pays(const ConvolutionSpec& spec, Pass) {
  if (spec.input.type != Type::f32 && has_matrix_units()) return false;
  const std::int64_t pairs = spec.input.x[3] * spec.filters;
  return pairs >= (spec.kernel == 5 ? 32 * 16 : 64 * 32);
}

constexpr std::array kConvolutions{
    ConvolutionEntry{"auto", "whichever is faster for a layer's shape and type", pays},
    ConvolutionEntry{"direct", "oneDNN's direct sums: the smallest rounding errors",
                     [](const ConvolutionSpec&, Pass) { return false; }},
    ConvolutionEntry{"winograd", "Winograd's F(4x4,3x3) and F(4x4,5x5) wherever they can be had",
                     [](const ConvolutionSpec&, Pass) { return true; }},
};

/// Some passes by one plan, the others by the other.
class MixedPlan : public AffinePlan {
 public:
  MixedPlan(std::unique_ptr<AffinePlan> direct, std::unique_ptr<AffinePlan> fast,
            std::array<bool, 3> by_fast)
      : direct_(std::move(direct)), fast_(std::move(fast)), by_fast_(by_fast) {}

  void forward(Stream& stream, View x, View w, View b, View y, void* scratch) override {
    of(Pass::forward).forward(stream, x, w, b, y, scratch);
  }
  void backward_data(Stream& stream, View dy, View w, View dx, void* scratch) override {
    of(Pass::backward_data).backward_data(stream, dy, w, dx, scratch);
  }
  void backward_weights(Stream& stream, View x, View dy, View dw, View db, void* scratch) override {
    of(Pass::backward_weights).backward_weights(stream, x, dy, dw, db, scratch);
  }
  std::size_t scratch_bytes() const override {
    return std::max(direct_->scratch_bytes(), fast_->scratch_bytes());
  }
  std::string implementation() const override {
    std::string text = direct_->implementation() + "; " + fast_->implementation() + " for";
    constexpr std::array kNames{" forward", " backward data", " backward weights"};
    for (std::size_t i = 0; i < kNames.size(); ++i) text += by_fast_[i] ? kNames[i] : "";
    return text;
  }

 private:
  AffinePlan& of(Pass pass) {
    return *(by_fast_[static_cast<std::size_t>(pass)] ? fast_ : direct_);
  }

  std::unique_ptr<AffinePlan> direct_, fast_;
  std::array<bool, 3> by_fast_;
};

}  // namespace

std::span<const ConvolutionEntry> convolutions() { return kConvolutions; }

std::unique_ptr<AffinePlan> make_cpu_convolution(const ConvolutionEntry& entry,
                                                 const dnnl::engine& engine,
                                                 const ConvolutionSpec& spec) {
  if (!winograd_serves(spec)) return make_onednn_convolution(engine, spec);
  const bool data = spec.input.training && spec.input.input_gradient, weights = spec.input.training;
  const std::array<bool, 3> fast{entry.fast(spec, Pass::forward),
                                 data && entry.fast(spec, Pass::backward_data),
                                 weights && entry.fast(spec, Pass::backward_weights)};
  if (!fast[0] && !fast[1] && !fast[2]) return make_onednn_convolution(engine, spec);
  if (fast[0] && fast[1] == data && fast[2] == weights) return make_winograd_convolution(spec);
  return std::make_unique<MixedPlan>(make_onednn_convolution(engine, spec),
                                     make_winograd_convolution(spec), fast);
}

}  // namespace lockstep
