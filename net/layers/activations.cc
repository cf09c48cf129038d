// ReLU, GELU and SiLU. GELU and SiLU are x times a smooth step, which backward computes again.
//
// Sources: Hendrycks, Gimpel, "Gaussian error linear units (GELUs)", 2016, in its exact form with
// the error function, here by Hastings' formula (Abramowitz, Stegun, 7.1.26), which is good to
// 1.5e-7; Elfwing, Uchibe, Doya, "Sigmoid-weighted linear units for neural network
// function approximation in reinforcement learning", Neural Networks 107, 2018.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "net/layers.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

/// e^-x for x of 0 or more, as arithmetic alone: the library's functions are not vectorised, and
/// cost ten times as much. Good to 2e-7 of itself; from 87 on it is e^-87.
HOST_DEVICE inline float exp_of_negative(float x) {
  constexpr float kLog2 = 1.44269504f, kRound = 12582912;  // 1.5 * 2^23: sums with it are whole
  constexpr float kHigh = 0.693359375f, kLow = -2.12194440e-4f;  // log 2 = high + low
  x = -std::min(x, 87.0f);
  const float shifted = x * kLog2 + kRound, power = shifted - kRound;
  const float r = (x - power * kHigh) - power * kLow;
  const float sum =
      1 + r * (1 + r * (5.0000001201e-1f +
                        r * (1.6666665459e-1f +
                             r * (4.1665795894e-2f +
                                  r * (8.3334519073e-3f +
                                       r * (1.3981999507e-3f + r * 1.9875691500e-4f))))));
  const std::uint32_t exponent = std::bit_cast<std::uint32_t>(shifted) << 23;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(sum) + exponent);
}

// A unit gives its value at x and dx. Backward is passed x, or y if kFromOutput.

struct Relu {
  static constexpr const char* kName = "relu";
  static constexpr bool kFromOutput = true;
  HOST_DEVICE static float value(float x) { return x <= 0 ? 0.0f : x; }  // NaN stays NaN
  HOST_DEVICE static float gradient(float y, float dy) { return y > 0 ? dy : 0.0f; }
};

struct Gelu {
  static constexpr const char* kName = "gelu";
  static constexpr bool kFromOutput = false;
  HOST_DEVICE static float value(float x) { return x * step(x, bell(x)); }
  HOST_DEVICE static float gradient(float x, float dy) {
    constexpr float kPeak = 0.3989422804f;  // 1 / sqrt(2 pi)
    const float at = bell(x);
    return dy * (step(x, at) + x * kPeak * at);
  }

 private:
  HOST_DEVICE static float bell(float x) { return exp_of_negative(0.5f * x * x); }
  HOST_DEVICE static float step(float x, float bell) {
    const float t = 1 / (1 + 0.3275911f * 0.7071067812f * std::abs(x));
    const float polynomial =
        t * (0.254829592f +
             t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    const float beyond = 0.5f * polynomial * bell;
    return x < 0 ? beyond : 1 - beyond;
  }
};

struct Silu {
  static constexpr const char* kName = "silu";
  static constexpr bool kFromOutput = false;
  HOST_DEVICE static float value(float x) { return x * step(x); }
  HOST_DEVICE static float gradient(float x, float dy) {
    return dy * (step(x) * (1 + x * step(-x)));
  }

 private:
  HOST_DEVICE static float step(float x) { return 1 / (1 + std::exp(-x)); }
};

template <class Unit, class T>
struct Forward {
  const T* x;
  T* y;
  HOST_DEVICE void operator()(std::int64_t i) const { y[i] = Unit::value(x[i]); }
};

template <class Unit, class T>
struct Backward {
  const T *at, *dy;
  T* dx;
  HOST_DEVICE void operator()(std::int64_t i) const { dx[i] = Unit::gradient(at[i], dy[i]); }
};

template <class Unit>
class UnitLayer : public Layer {
 public:
  Shape setup(Setup&, Shape in) override { return in; }
  void forward(LayerCall& call, View x, View y) override {
    dispatch(x.type, [&]<class T>(T*) {
      each(*call.stream, x.count(), Forward<Unit, T>{x.as<T>(), y.as<T>()});
    });
  }
  void backward(LayerCall& call, View x, View y, View dy, View dx) override {
    const View at = Unit::kFromOutput ? y : x;
    dispatch(x.type, [&]<class T>(T*) {
      each(*call.stream, x.count(), Backward<Unit, T>{at.as<T>(), dy.as<T>(), dx.as<T>()});
    });
  }
  std::string implementation() const override { return Unit::kName; }
};

}  // namespace

std::unique_ptr<Layer> relu() { return std::make_unique<UnitLayer<Relu>>(); }
std::unique_ptr<Layer> gelu() { return std::make_unique<UnitLayer<Gelu>>(); }
std::unique_ptr<Layer> silu() { return std::make_unique<UnitLayer<Silu>>(); }

}  // namespace lockstep
