// A generated data set of CIFAR-10's shape, for runs without data: 50000 training and 10000 test
// images, 32x32x3, 10 classes. A class is one of five shapes in one of two textures; place, size,
// angle, colours, background and noise are random.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>

#include "src/base/check.h"
#include "src/data/augment.h"
#include "src/data/sets/generated.h"

namespace lockstep {
namespace {

using Pixels = std::array<float, kImagePlane>;  ///< one value for each pixel, row by row
using Colour = std::array<float, kImageChannels>;

/// Coordinates (u, v) that are moved, turned and scaled against those of the pixels (x, y).
struct Frame {
  Frame(float x, float y, float scale, Direction direction)
      : x0(x), y0(y), cosine(direction.cosine / scale), sine(direction.sine / scale) {}
  float u(float x, float y) const { return (x - x0) * cosine + (y - y0) * sine; }
  float v(float x, float y) const { return (y - y0) * cosine - (x - x0) * sine; }

  float x0, y0, cosine, sine;
};

template <class F>
void fill(const Frame& frame, Pixels& pixels, F value) {
  for (int row = 0; row < kImageSide; ++row) {
    for (int column = 0; column < kImageSide; ++column) {
      const float x = column, y = row;
      pixels[row * kImageSide + column] = value(frame.u(x, y), frame.v(x, y));
    }
  }
}

/// 1 where `inside` is true, and 0 outside.
template <auto inside>
void draw_shape(const Frame& frame, Pixels& mask) {
  fill(frame, mask, [](float u, float v) { return inside(u, v) ? 1.0f : 0.0f; });
}

/// A shape reaches about as far as u^2 + v^2 = 1.
struct ShapeEntry {
  const char* name;
  void (*draw)(const Frame& frame, Pixels& mask);
};
constexpr ShapeEntry kShapes[] = {
    {"disk", draw_shape<[](float u, float v) { return u * u + v * v < 1.0f; }>},
    {"ring", draw_shape<[](float u, float v) { return std::abs(u * u + v * v - 0.8f) < 0.4f; }>},
    {"square",
     draw_shape<[](float u, float v) { return std::max(std::abs(u), std::abs(v)) < 0.85f; }>},
    {"triangle", draw_shape<[](float u, float v) {
       return std::max(v, 1.732f * std::abs(u) - v - 0.7f) < 0.6f;
     }>},
    {"cross", draw_shape<[](float u, float v) {
       const float a = std::abs(u), b = std::abs(v);
       return std::max(3.2f * std::min(a, b), std::max(a, b)) < 1.05f;
     }>}};
constexpr int kShapeCount = std::size(kShapes);
/// Class c is shape c mod 5, plain below 5 and striped from 5 on.
constexpr int kClasses = 2 * kShapeCount;

/// 0 and 1 in turn, once in each unit of u.
void draw_stripes(const Frame& frame, Pixels& mix) {
  fill(frame, mix, [](float u, float) { return u - std::floor(u) < 0.5f ? 1.0f : 0.0f; });
}
/// From 0 to 1 within one unit of u.
void draw_slope(const Frame& frame, Pixels& mix) {
  fill(frame, mix, [](float u, float) { return std::clamp(u + 0.5f, 0.0f, 1.0f); });
}

Colour draw_colour(Random& random) {
  return {random.uniform(0.0f, 255.0f), random.uniform(0.0f, 255.0f), random.uniform(0.0f, 255.0f)};
}

/// Two colours and the share of the second at each pixel: in stripes, or along a slope through
/// (x, y).
struct Surface {
  Surface(Random& random, bool striped, float x, float y) {
    const float scale = striped ? random.uniform(3.5f, 7.0f) : random.uniform(14.0f, 32.0f);
    const Frame frame(x, y, scale, Direction(random.uniform(0.0f, 6.2831853f)));
    (striped ? draw_stripes : draw_slope)(frame, mix);
    first = draw_colour(random);
    second = draw_colour(random);
  }
  float at(int pixel, int channel) const {
    return first[channel] + mix[pixel] * (second[channel] - first[channel]);
  }

  Pixels mix;
  Colour first, second;
};

/// Paints an image of class `label` into `planes`. The background is striped or not
/// independently of the class, so that only the texture within the shape counts.
void paint(int label, Random& random, std::uint8_t* planes) {
  const float x = random.uniform(13.0f, 18.0f), y = random.uniform(13.0f, 18.0f);
  const float radius = random.uniform(7.0f, 11.0f), angle = random.uniform(-0.4f, 0.4f);
  Pixels mask;
  kShapes[label % kShapeCount].draw(Frame(x, y, radius, Direction(angle)), mask);
  const Surface front(random, label >= kShapeCount, x, y);
  const bool striped = random.below(2) == 1;
  const Surface back(random, striped, 15.5f, 15.5f);

  const float noise = random.uniform(0.1f, 0.4f);
  // One random number serves four bytes, because noise needs more numbers than all else.
  std::uint32_t words[kImageValues / 4];
  for (std::uint32_t& word : words) word = random.next();
  std::uint8_t grain[kImageValues];
  std::memcpy(grain, words, sizeof grain);
  for (int c = 0; c < kImageChannels; ++c) {
    for (int i = 0; i < kImagePlane; ++i) {
      const float clean = back.at(i, c) + mask[i] * (front.at(i, c) - back.at(i, c));
      const float noisy = clean + (grain[c * kImagePlane + i] - 127.5f) * noise;
      planes[c * kImagePlane + i] = static_cast<std::uint8_t>(std::clamp(noisy, 0.0f, 255.0f));
    }
  }
}

OpenedData open(const DataSource& source) {
  GeneratedSpec spec{.about = "generated shapes and textures",
                     .name = "generated images",
                     .format = kCroppedImages,
                     .class_names = {},
                     .train = 50000,
                     .test = 10000,
                     .draw = paint};
  for (int label = 0; label < kClasses; ++label) {
    spec.class_names.push_back(fmt::format("{} {}", label < kShapeCount ? "plain" : "striped",
                                           kShapes[label % kShapeCount].name));
  }
  return generate(spec, source.seed);
}

}  // namespace

DatasetEntry synthetic() {
  return {.name = "synthetic",
          .about = "generated shapes and textures of CIFAR-10's shape; needs no files",
          .stands_for = "cifar10",
          .model = "tutorial",
          .steps = 1000,
          .open = open};
}

}  // namespace lockstep
