#include "src/data/synthetic.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "src/data/distort.h"

namespace lockstep {
namespace {

constexpr int kShapes = 5, kTextures = 2, kClasses = kShapes * kTextures;
constexpr const char* kShapeNames[kShapes] = {"disk", "ring", "square", "triangle", "cross"};
constexpr const char* kTextureNames[kTextures] = {"plain", "striped"};

/// Coordinates in a frame that is moved, turned and scaled against the pixels.
struct Frame {
  float x, y, cosine, sine;  ///< the latter two divided by the scale

  Frame(float x, float y, float scale, float angle)
      : x(x), y(y), cosine(std::cos(angle) / scale), sine(std::sin(angle) / scale) {}
  float u(float px, float py) const { return (px - x) * cosine + (py - y) * sine; }
  float v(float px, float py) const { return (py - y) * cosine - (px - x) * sine; }
};

/// How far (u, v) lies inside a shape of about unit radius: positive inside.
template <int shape>
float inside(float u, float v) {
  const float a = std::abs(u), b = std::abs(v), square = u * u + v * v;
  if constexpr (shape == 0) return 1.0f - square;
  if constexpr (shape == 1) return std::min(1.1f - square, square - 0.4f);
  if constexpr (shape == 2) return 0.85f - std::max(a, b);
  if constexpr (shape == 3) return std::min(0.65f - v, v + 1.15f - 1.75f * a);
  if constexpr (shape == 4) return std::min(0.33f - std::min(a, b), 1.1f - std::max(a, b));
}

template <int shape>
void fill_mask(const Frame& frame, float* mask) {
  for (int i = 0; i < kImagePlane; ++i) {
    const auto x = static_cast<float>(i % kImageSide), y = static_cast<float>(i / kImageSide);
    mask[i] = inside<shape>(frame.u(x, y), frame.v(x, y)) > 0 ? 1.0f : 0.0f;
  }
}

/// Stripes along u, `period` long: 0 and 1 by turns.
void fill_stripes(const Frame& frame, float* stripes) {
  for (int i = 0; i < kImagePlane; ++i) {
    const auto x = static_cast<float>(i % kImageSide), y = static_cast<float>(i / kImageSide);
    const float u = frame.u(x, y);
    stripes[i] = u - std::floor(u) < 0.5f ? 1.0f : 0.0f;
  }
}

}  // namespace
}
