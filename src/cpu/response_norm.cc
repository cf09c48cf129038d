// With s = bias + alpha * (window sum of x^2):
//   y  = x * s^-beta
//   dx = dy * s^-beta - 2 * alpha * beta * x * (window sum of dy * x * s^(-beta - 1))
//
// A block of pixels is unpacked into rows of `radius` zeros, the channels, `radius` zeros; there
// every step, the window sums too, is one flat vector loop over the whole block. s is computed
// again in backward: cheaper than keeping it.

#include "src/cpu/response_norm.h"

#include <cmath>
#include <vector>

#include "src/cpu/parallel_for.h"

namespace lockstep {
namespace {

constexpr std::int64_t kPixels = 16;  // of a block: all its buffers stay in the first-level cache

/// The buffers of one block. All have the padded layout; what stands in the padding of `s` and
/// `scale` is never used.
struct Block {
  std::int64_t channels, radius, stride, size;
  std::vector<float> x, s, scale, terms, sums;

  Block(std::int64_t channels, std::int64_t radius)
      : channels(channels), radius(radius), stride(channels + 2 * radius), size(kPixels * stride) {
    for (auto* buffer : {&x, &s, &scale, &terms, &sums}) {
      buffer->assign(static_cast<std::size_t>(size + 2 * radius), 0.0f);
    }
  }

  /// Calls f(place in the padded layout, place in the tensor) for the first channel of each of
  /// `pixels` pixels.
  template <class F>
  void each_row(std::int64_t pixels, F f) const {
    for (std::int64_t p = 0; p < pixels; ++p) f(p * stride + radius, p * channels);
  }

  /// sums[i] = terms[i - radius] + ... + terms[i + radius]
  void sum_windows() {
    float* __restrict to = sums.data() + radius;
    const float* __restrict from = terms.data();
    for (std::int64_t i = 0; i < size; ++i) to[i] = from[i];
    for (std::int64_t shift = 1; shift <= 2 * radius; ++shift) {
      for (std::int64_t i = 0; i < size; ++i) to[i] += from[i + shift];
    }
  }
};

class CpuResponseNorm : public ResponseNormPlan {
 public:
  explicit CpuResponseNorm(const ResponseNormSpec& spec) : spec_(spec) {}

  void forward(Stream& stream, View x, View y) override {
    dispatch(x.type, [&](auto* tag) {
      using T = std::remove_pointer_t<decltype(tag)>;
      stream.give([this, x = x.as<T>(), y = y.as<T>(), threads = stream.threads()] {
        forward_as(threads, x, y);
      });
    });
  }

  void backward(Stream& stream, View x, View dy, View dx, void* /*scratch*/) override {
    dispatch(x.type, [&](auto* tag) {
      using T = std::remove_pointer_t<decltype(tag)>;
      stream.give([this, x = x.as<T>(), dy = dy.as<T>(), dx = dx.as<T>(),
                   threads = stream.threads()] { backward_as(threads, x, dy, dx); });
    });
  }

 private:
  template <class T>
  void forward_as(int threads, const T* x, T* y) const {
    each_block(threads, x, [y](Block& b, std::int64_t first, std::int64_t pixels) {
      b.each_row(pixels, [&](std::int64_t in, std::int64_t out) {
        for (std::int64_t c = 0; c < b.channels; ++c)
          y[first + out + c] = b.x[in + c] * b.scale[in + c];
      });
    });
  }

  template <class T>
  void backward_as(int threads, const T* x, const T* dy, T* dx) const {
    each_block(threads, x, [this, dy, dx](Block& b, std::int64_t first, std::int64_t pixels) {
      b.each_row(pixels, [&](std::int64_t in, std::int64_t out) {
        for (std::int64_t c = 0; c < b.channels; ++c) b.terms[in + c] = dy[first + out + c];
      });
      for (std::int64_t i = 0; i < b.size; ++i) b.terms[i] *= b.x[i] * b.scale[i] / b.s[i];
      b.sum_windows();
      const float factor = 2 * spec_.alpha * spec_.beta;
      b.each_row(pixels, [&](std::int64_t in, std::int64_t out) {
        for (std::int64_t c = 0; c < b.channels; ++c) {
          dx[first + out + c] = static_cast<float>(dy[first + out + c]) * b.scale[in + c] -
                                factor * b.x[in + c] * b.sums[in + c];
        }
      });
    });
  }

  /// Calls f(block, element at which it begins, pixels in it) with x, s and scale = s^-beta filled
  /// in.
  template <class T, class F>
  void each_block(int threads, const T* x, F f) const {
    const std::int64_t channels = spec_.input.x[3], pixels = spec_.input.x.count() / channels;
    parallel_for(threads, (pixels + kPixels - 1) / kPixels, 4,
                 [&](std::int64_t begin, std::int64_t end) {
                   Block b(channels, spec_.radius);
                   for (std::int64_t block = begin; block < end; ++block) {
                     const std::int64_t first = block * kPixels * channels;
                     const std::int64_t here = std::min(kPixels, pixels - block * kPixels);
                     b.each_row(here, [&](std::int64_t in, std::int64_t out) {
                       for (std::int64_t c = 0; c < channels; ++c) b.x[in + c] = x[first + out + c];
                     });
                     for (std::int64_t i = 0; i < b.size; ++i) b.terms[i] = b.x[i] * b.x[i];
                     b.sum_windows();
                     for (std::int64_t i = 0; i < b.size; ++i)
                       b.s[i] = spec_.bias + spec_.alpha * b.sums[i];
                     raise(b);
                     f(b, first, here);
                   }
                 });
  }

  /// scale = s^-beta; beta = 3/4, the usual one, by square roots alone.
  void raise(Block& b) const {
    const float* __restrict s = b.s.data();
    float* __restrict scale = b.scale.data();
    if (spec_.beta == 0.75f) {
      for (std::int64_t i = 0; i < b.size; ++i) {
        const float root = std::sqrt(s[i]);
        scale[i] = 1.0f / (root * std::sqrt(root));
      }
    } else {
      for (std::int64_t i = 0; i < b.size; ++i) scale[i] = std::pow(s[i], -spec_.beta);
    }
  }

  ResponseNormSpec spec_;
};

}  // namespace

std::unique_ptr<ResponseNormPlan> make_cpu_response_norm(const ResponseNormSpec& spec) {
  return std::make_unique<CpuResponseNorm>(spec);
}

}  // namespace lockstep
