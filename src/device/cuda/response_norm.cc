// For the formulas see src/device/cpu/response_norm_body.h. A row is a pixel, and a team shares its
// channels. The first pass of backward() stores the terms of the window sum, so that they are not
// computed 2 * radius + 1 times.

#include <cmath>

#include "src/device/cuda/layers.h"
#include "src/device/each.h"

namespace lockstep::cuda {
namespace {

struct Norm {
  std::int64_t channels, radius;
  float bias, alpha, beta;

  /// The window around channel c of a pixel, as [begin, end).
  HOST_DEVICE std::int64_t begin(std::int64_t c) const { return c < radius ? 0 : c - radius; }
  HOST_DEVICE std::int64_t end(std::int64_t c) const {
    return c + radius < channels ? c + radius + 1 : channels;
  }
  /// bias + alpha * (window sum of x^2)
  template <class T>
  HOST_DEVICE float s(const T* x, std::int64_t c) const {
    float sum = 0;
    for (std::int64_t k = begin(c); k < end(c); ++k) {
      const float value = x[k];
      sum += value * value;
    }
    return bias + alpha * sum;
  }
  /// s^-beta; beta = 3/4, the most common value, needs only square roots.
  HOST_DEVICE float scale(float s) const {
    if (beta != 0.75f) return std::pow(s, -beta);
    const float root = std::sqrt(s);
    return 1.0f / (root * std::sqrt(root));
  }
};

template <class T>
struct Forward {
  Norm norm;
  const T* x;
  T* y;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const T* from = x + row * norm.channels;
    for (std::int64_t c = team.lane; c < norm.channels; c += team.lanes)
      y[row * norm.channels + c] = static_cast<float>(from[c]) * norm.scale(norm.s(from, c));
  }
};

/// terms = dy * x * s^(-beta - 1)
template <class T>
struct Terms {
  Norm norm;
  const T *x, *dy;
  float* terms;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const T* from = x + row * norm.channels;
    for (std::int64_t c = team.lane; c < norm.channels; c += team.lanes) {
      const std::int64_t i = row * norm.channels + c;
      const float s = norm.s(from, c);
      terms[i] = static_cast<float>(dy[i]) * (static_cast<float>(from[c]) * norm.scale(s) / s);
    }
  }
};

/// dx = dy * s^-beta - 2 * alpha * beta * x * (window sum of terms)
template <class T>
struct Backward {
  Norm norm;
  const T *x, *dy;
  const float* terms;
  T* dx;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const T* from = x + row * norm.channels;
    const float* own = terms + row * norm.channels;
    for (std::int64_t c = team.lane; c < norm.channels; c += team.lanes) {
      const std::int64_t i = row * norm.channels + c;
      float sum = 0;
      for (std::int64_t k = norm.begin(c); k < norm.end(c); ++k) sum += own[k];
      dx[i] = static_cast<float>(dy[i]) * norm.scale(norm.s(from, c)) -
              2 * norm.alpha * norm.beta * static_cast<float>(from[c]) * sum;
    }
  }
};

class EachResponseNorm : public ResponseNormPlan {
 public:
  explicit EachResponseNorm(const ResponseNormSpec& spec)
      : norm_{spec.input.x[3], spec.radius, spec.bias, spec.alpha, spec.beta},
        pixels_(spec.input.x.count() / spec.input.x[3]),
        scratch_bytes_(spec.input.training ? spec.input.x.count() * sizeof(float) : 0) {}

  void forward(Stream& stream, View x, View y) override {
    dispatch(x.type, [&]<class T>(T*) {
      each_row(stream, pixels_, work(), Forward<T>{norm_, x.as<T>(), y.as<T>()});
    });
  }

  void backward(Stream& stream, View x, View dy, View dx, void* scratch) override {
    dispatch(x.type, [&]<class T>(T*) {
      auto* terms = static_cast<float*>(scratch);
      each_row(stream, pixels_, work(), Terms<T>{norm_, x.as<T>(), dy.as<T>(), terms});
      each_row(stream, pixels_, work(),
               Backward<T>{norm_, x.as<T>(), dy.as<T>(), terms, dx.as<T>()});
    });
  }

  std::size_t scratch_bytes() const override { return scratch_bytes_; }

 private:
  std::int64_t work() const { return norm_.channels * (2 * norm_.radius + 1); }

  Norm norm_;
  std::int64_t pixels_;
  std::size_t scratch_bytes_;
};

}  // namespace

std::unique_ptr<ResponseNormPlan> make_response_norm(const ResponseNormSpec& spec) {
  return std::make_unique<EachResponseNorm>(spec);
}

}  // namespace lockstep::cuda
