// Forward takes the maximum tap by tap and notes which tap won (kNobody where ReLU cuts it off);
// backward gathers: an input pixel sums the gradients of the few windows that it won, so every
// element of dx is written exactly once, in a fixed order.

#include "src/cpu/pool.h"

#include <algorithm>
#include <array>

#include "src/cpu/parallel_for.h"

namespace lockstep {
namespace {

constexpr std::int64_t kBlock = 64;  // channels at a time: a few vector registers
constexpr std::int32_t kNobody = 255;

class CpuMaxPool : public MaxPoolPlan {
 public:
  explicit CpuMaxPool(const MaxPoolSpec& spec)
      : spec_(spec), in_(spec.input.x), out_(spec.output()) {
    const auto pad = [&](std::int64_t in, std::int64_t out) {
      return std::max<std::int64_t>((out - 1) * spec.stride + spec.kernel - in, 0) / 2;
    };
    pad_y_ = pad(in_[1], out_[1]);
    pad_x_ = pad(in_[2], out_[2]);
    expect(spec.kernel * spec.kernel <= kNobody, "a pooling window has at most 255 elements");
  }

  void forward(Stream& stream, View x, View y, std::uint8_t* argmax) override {
    dispatch(x.type, [&](auto* tag) {
      using T = std::remove_pointer_t<decltype(tag)>;
      stream.give([=, this, from = x.as<T>(), to = y.as<T>(), threads = stream.threads()] {
        forward_as(threads, from, to, argmax);
      });
    });
  }

  void backward(Stream& stream, View dy, const std::uint8_t* argmax, View dx) override {
    dispatch(dy.type, [&](auto* tag) {
      using T = std::remove_pointer_t<decltype(tag)>;
      stream.give([=, this, from = dy.as<T>(), to = dx.as<T>(), threads = stream.threads()] {
        backward_as(threads, from, argmax, to);
      });
    });
  }

 private:
  template <class T>
  void forward_as(int threads, const T* x, T* y, std::uint8_t* argmax) const {
    const std::int64_t channels = in_[3], rows = out_[0] * out_[1];
    parallel_for(threads, rows, 4, [=, this](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t n = row / out_[1], top = row % out_[1] * spec_.stride - pad_y_;
        for (std::int64_t ox = 0; ox < out_[2]; ++ox) {
          const std::int64_t left = ox * spec_.stride - pad_x_;
          const std::int64_t place = (row * out_[2] + ox) * channels;
          for (std::int64_t c = 0; c < channels; c += kBlock) {
            window(x + n * in_.row() + c, top, left, std::min(kBlock, channels - c), y + place + c,
                   argmax + place + c);
          }
        }
      }
    });
  }

  /// One window, `count` channels: `x` points at the image's first pixel.
  template <class T>
  void window(const T* __restrict x, std::int64_t top, std::int64_t left, std::int64_t count,
              T* __restrict y, std::uint8_t* __restrict argmax) const {
    std::array<float, kBlock> best;
    std::array<std::int32_t, kBlock> which;
    best.fill(-std::numeric_limits<float>::infinity());
    which.fill(0);
    for (std::int64_t ky = std::max<std::int64_t>(-top, 0);
         ky < std::min(spec_.kernel, in_[1] - top); ++ky) {
      for (std::int64_t kx = std::max<std::int64_t>(-left, 0);
           kx < std::min(spec_.kernel, in_[2] - left); ++kx) {
        const T* tap = x + ((top + ky) * in_[2] + left + kx) * in_[3];
        const auto index = static_cast<std::int32_t>(ky * spec_.kernel + kx);
        for (std::int64_t c = 0; c < count; ++c) {
          const float value = tap[c];
          // A NaN wins and stays, so that a diverging run is seen and not hidden.
          const bool wins = (value > best[c]) | (value != value);
          best[c] = wins ? value : best[c];
          which[c] = wins ? index : which[c];
        }
      }
    }
    if (spec_.relu) {
      for (std::int64_t c = 0; c < count; ++c) {
        const bool cut = best[c] <= 0;
        best[c] = cut ? 0 : best[c];
        which[c] = cut ? kNobody : which[c];
      }
    }
    for (std::int64_t c = 0; c < count; ++c) {
      y[c] = best[c];
      argmax[c] = static_cast<std::uint8_t>(which[c]);
    }
  }

  template <class T>
  void backward_as(int threads, const T* dy, const std::uint8_t* argmax, T* dx) const {
    const std::int64_t rows = in_[0] * in_[1];
    parallel_for(threads, rows, 4, [=, this](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t n = row / in_[1], iy = row % in_[1];
        const std::int64_t image = n * out_.row();
        for (std::int64_t ix = 0; ix < in_[2]; ++ix) {
          for (std::int64_t c = 0; c < in_[3]; c += kBlock) {
            gather(dy + image + c, argmax + image + c, iy, ix, std::min(kBlock, in_[3] - c),
                   dx + (row * in_[2] + ix) * in_[3] + c);
          }
        }
      }
    });
  }

  /// The gradient of input pixel (iy, ix), `count` channels: the sum over the windows that it is in
  /// and won.
  template <class T>
  void gather(const T* __restrict dy, const std::uint8_t* __restrict argmax, std::int64_t iy,
              std::int64_t ix, std::int64_t count, T* __restrict dx) const {
    std::array<float, kBlock> sum{};
    const std::int64_t py = iy + pad_y_, px = ix + pad_x_, stride = spec_.stride;
    const auto first = [&](std::int64_t p) {
      return p < spec_.kernel ? 0 : (p - spec_.kernel) / stride + 1;
    };
    for (std::int64_t oy = first(py); oy <= std::min(py / stride, out_[1] - 1); ++oy) {
      for (std::int64_t ox = first(px); ox <= std::min(px / stride, out_[2] - 1); ++ox) {
        const std::int64_t place = (oy * out_[2] + ox) * out_[3];
        const auto index =
            static_cast<std::int32_t>((py - oy * stride) * spec_.kernel + px - ox * stride);
        for (std::int64_t c = 0; c < count; ++c) {
          const float gradient = dy[place + c];
          sum[c] += argmax[place + c] == index ? gradient : 0.0f;
        }
      }
    }
    for (std::int64_t c = 0; c < count; ++c) dx[c] = sum[c];
  }

  MaxPoolSpec spec_;
  Shape in_, out_;
  std::int64_t pad_y_ = 0, pad_x_ = 0;
};

}  // namespace

std::unique_ptr<MaxPoolPlan> make_cpu_max_pool(const MaxPoolSpec& spec) {
  return std::make_unique<CpuMaxPool>(spec);
}

}  // namespace lockstep
