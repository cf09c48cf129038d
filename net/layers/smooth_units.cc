// GELU and SiLU: x times a smooth step. Backward works the step out again from x.
//
// Sources: Hendrycks, Gimpel, "Gaussian error linear units (GELUs)", 2016, in its exact form with
// the error function; Elfwing, Uchibe, Doya, "Sigmoid-weighted linear units for neural network
// function approximation in reinforcement learning", Neural Networks 107, 2018.

#include <cmath>

#include "net/layers.h"
#include "src/each.h"

namespace lockstep {
namespace {

struct Gelu {
  static constexpr const char* kName = "gelu";
  HOST_DEVICE static float value(float x) { return x * step(x); }
  HOST_DEVICE static float slope(float x) {
    constexpr float kPeak = 0.3989422804f;  // 1 / sqrt(2 pi)
    return step(x) + x * kPeak * std::exp(-0.5f * x * x);
  }

 private:
  HOST_DEVICE static float step(float x) { return 0.5f * std::erfc(-0.7071067812f * x); }
};

struct Silu {
  static constexpr const char* kName = "silu";
  HOST_DEVICE static float value(float x) { return x * step(x); }
  HOST_DEVICE static float slope(float x) { return step(x) * (1 + x * step(-x)); }

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
  const T *x, *dy;
  T* dx;
  HOST_DEVICE void operator()(std::int64_t i) const {
    dx[i] = static_cast<float>(dy[i]) * Unit::slope(x[i]);
  }
};

template <class Unit>
class UnitLayer : public Layer {
 public:
  Shape setup(Setup&, Shape in) override { return in; }
  void forward(LayerCall& call, View x, View y) override {
    dispatch(x.type, [&](auto* tag) {
      using T = std::remove_pointer_t<decltype(tag)>;
      each(*call.stream, x.count(), Forward<Unit, T>{x.as<T>(), y.as<T>()});
    });
  }
  void backward(LayerCall& call, View x, View, View dy, View dx) override {
    if (!dx) return;
    dispatch(x.type, [&](auto* tag) {
      using T = std::remove_pointer_t<decltype(tag)>;
      each(*call.stream, x.count(), Backward<Unit, T>{x.as<T>(), dy.as<T>(), dx.as<T>()});
    });
  }
  std::string implementation() const override { return Unit::kName; }
};

}  // namespace

std::unique_ptr<Layer> gelu() { return std::make_unique<UnitLayer<Gelu>>(); }
std::unique_ptr<Layer> silu() { return std::make_unique<UnitLayer<Silu>>(); }

}  // namespace lockstep
