// ReLU, GELU, SiLU, and the two units that replace SiLU and its step by lines. Backward computes
// steps again. For .cc files of net/layers.
//
// Sources: Hendrycks, Gimpel, "Gaussian error linear units (GELUs)", 2016, in its exact form with
// the error function, here by Hastings' formula (Abramowitz, Stegun, 7.1.26), which is good to
// 1.5e-7; Elfwing, Uchibe, Doya, "Sigmoid-weighted linear units for neural network
// function approximation in reinforcement learning", Neural Networks 107, 2018; Howard et al.,
// "Searching for MobileNetV3", ICCV 2019 (hard swish).
#pragma once

#include <cmath>

#include "net/exponential.h"
#include "src/base/host_device.h"

namespace lockstep {

// A unit gives its value at x, and dx from x and dy. A ReLU may be passed y in place of x.

struct Linear {
  HOST_DEVICE static float value(float x) { return x; }
  HOST_DEVICE static float gradient(float, float dy) { return dy; }
};

struct Relu {
  static constexpr const char* kName = "relu";
  HOST_DEVICE static float value(float x) { return x <= 0 ? 0.0f : x; }  // NaN stays NaN
  HOST_DEVICE static float gradient(float x, float dy) { return x > 0 ? dy : 0.0f; }
};

struct Gelu {
  static constexpr const char* kName = "gelu";
  HOST_DEVICE static float value(float x) { return x * step(x, bell(x)); }
  HOST_DEVICE static float gradient(float x, float dy) {
    constexpr float kPeak = 0.3989422804f;  // 1 / sqrt(2 pi)
    const float at = bell(x);
    return dy * (step(x, at) + x * kPeak * at);
  }

 private:
  HOST_DEVICE static float bell(float x) { return exp_of_negative(0.5f * x * x); }
  HOST_DEVICE static float step(float x, float bell) {
    const float t = 1 / std::fma(0.3275911f * 0.7071067812f, std::abs(x), 1.0f);
    float sum = std::fma(1.061405429f, t, -1.453152027f);
    sum = std::fma(sum, t, 1.421413741f);
    sum = std::fma(sum, t, -0.284496736f);
    sum = std::fma(sum, t, 0.254829592f);
    const float beyond = 0.5f * (t * sum) * bell;
    return x < 0 ? beyond : 1 - beyond;
  }
};

struct Silu {
  static constexpr const char* kName = "silu";
  HOST_DEVICE static float value(float x) { return x * step(x); }
  HOST_DEVICE static float gradient(float x, float dy) {
    return dy * (step(x) * (1 + x * step(-x)));
  }

 private:
  HOST_DEVICE static float step(float x) { return 1 / (1 + exponential(-x)); }
};

/// A step of lines: 0 up to -3, 1 from 3 on. Each choice here is by itself, because g++ 12 makes a
/// product per branch of a nested one, with twice the instructions.
struct HardSigmoid {
  static constexpr const char* kName = "hard_sigmoid";
  HOST_DEVICE static float value(float x) {
    const float line = x * (1.0f / 6) + 0.5f, low = line > 1 ? 1.0f : line;
    return line < 0 ? 0.0f : low;  // NaN stays NaN
  }
  HOST_DEVICE static float gradient(float x, float dy) {
    return x > -3 && x < 3 ? dy * (1.0f / 6) : 0.0f;
  }
};

struct HardSwish {
  static constexpr const char* kName = "hard_swish";
  HOST_DEVICE static float value(float x) { return x * HardSigmoid::value(x); }
  HOST_DEVICE static float gradient(float x, float dy) {
    const float slope = x * (1.0f / 3) + 0.5f, high = x >= 3 ? 1.0f : slope;
    return dy * (x <= -3 ? 0.0f : high);
  }
};

}  // namespace lockstep
