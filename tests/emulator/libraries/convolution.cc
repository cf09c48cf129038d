#include "tests/emulator/libraries/convolution.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace lockstep::cuda {
namespace {

using Floats = std::vector<float>;

/// Rounded to the 10 bits of mantissa of TF32.
float rounded(float value) {
  if (!std::isfinite(value)) return value;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) + 0x1000) & ~0x1fffu);
}

Floats load(const void* from, const Shape& shape, Type type, bool round) {
  Floats values(static_cast<std::size_t>(shape.count()));
  dispatch(type, [&]<class T>(T*) {
    const T* const elements = static_cast<const T*>(from);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = elements[i];
  });
  for (float& value : values) value = round ? rounded(value) : value;
  return values;
}

void store(const Floats& values, void* to, Type type) {
  dispatch(type, [&]<class T>(T*) {
    for (std::size_t i = 0; i < values.size(); ++i) static_cast<T*>(to)[i] = values[i];
  });
}

/// Filters as height, width, in, out: sums over the filters are then loops over neighbours.
Floats transposed(const Floats& w, std::int64_t filters) {
  const auto rows = static_cast<std::size_t>(filters), columns = w.size() / rows;
  Floats result(w.size());
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < columns; ++i) result[i * rows + row] = w[row * columns + i];
  }
  return result;
}

/// The products of one output pixel with one tap of the filters. `x`, `y`: all channels of a pixel;
/// `w`: the tap of the first filter, or for Pass::backward_data of the transposed ones.
void add_products(const Convolution& c, float* x, float* w, float* y) {
  const std::int64_t in = c.w[3], filters = c.w[0], tap = c.w.row();
  const std::int64_t groups = c.x[3] / in, out = filters / groups;
  for (std::int64_t group = 0; group < groups; ++group) {
    float* const xs = x + group * in;
    const std::int64_t first = group * out;
    if (c.pass == Pass::backward_data) {
      for (std::int64_t o = first; o < first + out; ++o) {
        for (std::int64_t i = 0; i < in; ++i) xs[i] += y[o] * w[o * tap + i];
      }
      continue;
    }
    for (std::int64_t i = 0; i < in; ++i) {
      float* const ws = w + i * filters;
      if (c.pass == Pass::forward) {
        for (std::int64_t o = first; o < first + out; ++o) y[o] += xs[i] * ws[o];
      } else {
        for (std::int64_t o = first; o < first + out; ++o) ws[o] += xs[i] * y[o];
      }
    }
  }
}

/// The sums of the taps of all images in x, w or y.
void add_up(const Convolution& c, Order order, Floats& x, Floats& w, Floats& y) {
  const std::int64_t taps = c.w[1] * c.w[2];
  const std::int64_t per_tap = c.pass == Pass::backward_data ? c.w[3] : c.w[3] * c.w[0];
  for (std::int64_t image = 0; image < c.x[0]; ++image) {
    for (std::int64_t p = 0; p < c.y[1] * c.y[2]; ++p) {
      for (std::int64_t i = 0; i < taps; ++i) {
        const std::int64_t tap = order == Order::up ? i : taps - 1 - i;
        const std::int64_t row = p / c.y[2] * c.stride[0] - c.pad[0] + tap / c.w[2] * c.dilation[0];
        const std::int64_t column =
            p % c.y[2] * c.stride[1] - c.pad[1] + tap % c.w[2] * c.dilation[1];
        if (row < 0 || row >= c.x[1] || column < 0 || column >= c.x[2]) continue;
        add_products(c, &x[((image * c.x[1] + row) * c.x[2] + column) * c.x[3]], &w[tap * per_tap],
                     &y[(image * c.y[1] * c.y[2] + p) * c.y[3]]);
      }
    }
  }
}

/// Whether ReLU keeps a NaN.
bool relu_keeps_nan() {
  const char* const of_nan = std::getenv("EMULATOR_RELU_OF_NAN");
  return of_nan == nullptr || std::strcmp(of_nan, "zero") != 0;
}

}  // namespace

void convolve(const Convolution& c, Order order, bool tf32, const Tensors& t) {
  Floats x = load(t.x, c.x, c.type, tf32), w = load(t.w, c.w, c.type, tf32),
         y = load(t.y, c.y, c.type, tf32);
  if (c.pass == Pass::forward) w = transposed(w, c.w[0]);
  Floats& result = c.pass == Pass::forward ? y : c.pass == Pass::backward_data ? x : w;
  std::fill(result.begin(), result.end(), 0.0f);
  add_up(c, order, x, w, y);
  if (c.pass == Pass::backward_weights) w = transposed(w, c.w.row());
  if (c.bias) {
    const Floats b = load(t.b, {c.w[0]}, c.type, false);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += b[i % b.size()];
  }
  const bool keeps_nan = relu_keeps_nan();
  for (float& value : y) {
    if (c.relu) value = value > 0 || (keeps_nan && std::isnan(value)) ? value : 0;
  }
  store(result, c.pass == Pass::forward ? t.y : c.pass == Pass::backward_data ? t.x : t.w, c.type);
}

}  // namespace lockstep::cuda
