// A row is a pixel, and a team shares its channels, which lie side by side. Backward gathers, as in
// src/cpu/pool.cc, where the rules are: what wins, what a NaN does, in which order gradients add
// up.

#include "src/cuda/pool.h"

#include <limits>

#include "src/each.h"

namespace lockstep::cuda {
namespace {

constexpr int kNobody = 255;

/// The windows of one plan.
struct Windows {
  std::int64_t in_height, in_width, out_height, out_width, channels;
  std::int64_t kernel, stride, pad_y, pad_x;
  bool relu;
};

template <class T>
struct Forward {
  Windows p;
  const T* x;
  T* y;
  std::uint8_t* argmax;

  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const std::int64_t column = row % p.out_width, line = row / p.out_width;
    const std::int64_t image = line / p.out_height;
    const std::int64_t top = line % p.out_height * p.stride - p.pad_y;
    const std::int64_t left = column * p.stride - p.pad_x;
    const T* from = x + image * p.in_height * p.in_width * p.channels;
    // The taps that lie inside: bounds of loops, for branches within them cost a GPU registers.
    const std::int64_t ky_begin = top < 0 ? -top : 0, kx_begin = left < 0 ? -left : 0;
    const std::int64_t ky_end = p.in_height - top < p.kernel ? p.in_height - top : p.kernel;
    const std::int64_t kx_end = p.in_width - left < p.kernel ? p.in_width - left : p.kernel;
    for (std::int64_t c = team.lane; c < p.channels; c += team.lanes) {
      float best = -std::numeric_limits<float>::infinity();
      int which = 0;
      for (std::int64_t ky = ky_begin; ky < ky_end; ++ky) {
        for (std::int64_t kx = kx_begin; kx < kx_end; ++kx) {
          const float value = from[((top + ky) * p.in_width + left + kx) * p.channels + c];
          const bool wins = value > best || value != value;
          best = wins ? value : best;
          which = wins ? static_cast<int>(ky * p.kernel + kx) : which;
        }
      }
      const bool cut = p.relu && best <= 0;
      y[row * p.channels + c] = cut ? 0.0f : best;
      argmax[row * p.channels + c] = static_cast<std::uint8_t>(cut ? kNobody : which);
    }
  }
};

template <class T>
struct Backward {
  Windows p;
  const T* dy;
  const std::uint8_t* argmax;
  T* dx;

  /// The first window, in one direction, that reaches as far as `place`.
  HOST_DEVICE std::int64_t first(std::int64_t place) const {
    return place < p.kernel ? 0 : (place - p.kernel) / p.stride + 1;
  }

  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const std::int64_t line = row / p.in_width, image = line / p.in_height;
    const std::int64_t py = line % p.in_height + p.pad_y, px = row % p.in_width + p.pad_x;
    const std::int64_t top = first(py), left = first(px);
    const std::int64_t from = image * p.out_height * p.out_width * p.channels;
    for (std::int64_t c = team.lane; c < p.channels; c += team.lanes) {
      float sum = 0;
      for (std::int64_t oy = top; oy <= py / p.stride && oy < p.out_height; ++oy) {
        for (std::int64_t ox = left; ox <= px / p.stride && ox < p.out_width; ++ox) {
          const std::int64_t place = from + (oy * p.out_width + ox) * p.channels + c;
          const std::int64_t own = (py - oy * p.stride) * p.kernel + px - ox * p.stride;
          const float gradient = dy[place];
          sum += argmax[place] == own ? gradient : 0.0f;
        }
      }
      dx[row * p.channels + c] = sum;
    }
  }
};

class EachMaxPool : public MaxPoolPlan {
 public:
  explicit EachMaxPool(const MaxPoolSpec& spec) {
    const Shape in = spec.input.x, out = spec.output();
    const auto pad = [&](std::int64_t from, std::int64_t to) {
      const std::int64_t missing = (to - 1) * spec.stride + spec.kernel - from;
      return missing > 0 ? missing / 2 : 0;
    };
    expect(spec.kernel * spec.kernel <= kNobody, "a pooling window has at most 255 elements");
    p_ = {in[1],
          in[2],
          out[1],
          out[2],
          in[3],
          spec.kernel,
          spec.stride,
          pad(in[1], out[1]),
          pad(in[2], out[2]),
          spec.relu};
    in_pixels_ = in[0] * in[1] * in[2];
    out_pixels_ = out[0] * out[1] * out[2];
  }

  void forward(Stream& stream, View x, View y, std::uint8_t* argmax) override {
    dispatch(x.type, [&](auto* tag) {
      using T = std::remove_pointer_t<decltype(tag)>;
      each_row(stream, out_pixels_, p_.channels * p_.kernel * p_.kernel,
               Forward<T>{p_, x.as<T>(), y.as<T>(), argmax});
    });
  }

  void backward(Stream& stream, View dy, const std::uint8_t* argmax, View dx) override {
    dispatch(dy.type, [&](auto* tag) {
      using T = std::remove_pointer_t<decltype(tag)>;
      each_row(stream, in_pixels_, p_.channels * p_.kernel,
               Backward<T>{p_, dy.as<T>(), argmax, dx.as<T>()});
    });
  }

 private:
  Windows p_;
  std::int64_t in_pixels_ = 0, out_pixels_ = 0;
};

}  // namespace

std::unique_ptr<MaxPoolPlan> make_max_pool(const MaxPoolSpec& spec) {
  return std::make_unique<EachMaxPool>(spec);
}

}  // namespace lockstep::cuda
