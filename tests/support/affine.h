// Affine layers in tests: the products that a convolution sums, and all passes of a plan.
#pragma once

#include "src/device/cuda/plan.h"
#include "tests/support/tensor.h"

namespace lockstep {

inline cuda::Convolution convolution_of(const ConvolutionSpec& spec) {
  return {.x = spec.input.x,
          .w = spec.weights(),
          .y = spec.output(),
          .stride = {spec.stride, spec.stride},
          .pad = {spec.pad_height(), spec.pad},
          .dilation = {spec.dilation, spec.dilation}};
}

/// Calls f(place in x, place in w, place in y) for every product of the convolution.
template <class F>
void for_products(const cuda::Convolution& c, F f) {
  const std::int64_t channels = c.w[3], filters = c.y[3] / (c.x[3] / channels);
  for (std::int64_t n = 0; n < c.y[0]; ++n)
    for (std::int64_t oy = 0; oy < c.y[1]; ++oy)
      for (std::int64_t ox = 0; ox < c.y[2]; ++ox)
        for (std::int64_t o = 0; o < c.y[3]; ++o)
          for (std::int64_t ky = 0; ky < c.w[1]; ++ky)
            for (std::int64_t kx = 0; kx < c.w[2]; ++kx) {
              const std::int64_t iy = oy * c.stride[0] - c.pad[0] + ky * c.dilation[0],
                                 ix = ox * c.stride[1] - c.pad[1] + kx * c.dilation[1];
              if (iy < 0 || iy >= c.x[1] || ix < 0 || ix >= c.x[2]) continue;
              const std::int64_t x = ((n * c.x[1] + iy) * c.x[2] + ix) * c.x[3],
                                 w = ((o * c.w[1] + ky) * c.w[2] + kx) * channels,
                                 y = ((n * c.y[1] + oy) * c.y[2] + ox) * c.y[3] + o;
              for (std::int64_t i = 0; i < channels; ++i)
                f(x + o / filters * channels + i, w + i, y);
            }
}

/// All inputs and results of a plan.
struct AffineOutcome {
  Values x = {}, dy = {}, w = {}, b = {};  ///< as their types hold them
  Values y = {}, dx = {}, dw = {}, db = {};
};

/// Tensors of a layer, and the inputs that run_affine() draws.
struct AffineCase {
  Shape x = {}, w = {}, y = {};
  Type type = Type::f32;
  bool positive = false;  ///< x in [0, 1), as after a ReLU
  bool coarse = false;    ///< bf16 holds all inputs
  bool biases = true, zero_biases = false;
  bool frozen = false;  ///< without a gradient of the weights
};

/// All passes of `plan` on random inputs. Results and scratch are NaN before each.
inline AffineOutcome run_affine(Device& device, AffinePlan& plan, const AffineCase& c) {
  const auto stream = device.stream();
  const Shape vector{c.w[0]};
  Tensor x(device, c.x, c.type), w(device, c.w, Type::f32), b(device, vector, Type::f32),
      y(device, c.y, c.type), dx(device, c.x, c.type), dw(device, c.w, Type::f32),
      db(device, vector, Type::f32), dy(device, c.y, c.type),
      scratch(device, {static_cast<std::int64_t>(plan.scratch_bytes() + 3) / 4}, Type::f32);
  std::uint32_t key = 0;
  for (Tensor* tensor : {&x, &dy, &w, &b}) {
    Random random(7, Purpose::generate, 0, ++key);
    tensor->fill(random, 1, c.coarse);
  }
  if (c.positive) {
    Values values = x.values();
    for (double& value : values) value = (value + 1) / 2;
    x.set(values);
  }
  if (c.zero_biases) b.set(Values(c.w[0]));
  const auto given = [](const Tensor& tensor, bool exists) {
    return exists ? tensor.view : View();
  };
  plan.forward(*stream, x.view, w.view, given(b, c.biases), y.view, scratch.view.data);
  stream->synchronize();
  scratch.values();
  scratch.poison();
  plan.backward_data(*stream, dy.view, w.view, dx.view, scratch.view.data);
  stream->synchronize();
  scratch.values();
  scratch.poison();
  plan.backward_weights(*stream, x.view, dy.view, given(dw, !c.frozen), given(db, c.biases),
                        scratch.view.data);
  stream->synchronize();
  scratch.values();
  return {x.values(), dy.values(), w.values(),  b.values(),
          y.values(), dx.values(), dw.values(), db.values()};
}

}  // namespace lockstep
