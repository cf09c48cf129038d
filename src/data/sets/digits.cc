// A generated data set of MNIST's shape, for runs without data: 60000 training and 10000 test
// images, 28x28x1, of the digits 0 to 9. A digit is drawn in one stroke or two, whose corners,
// size, angle, slant, place, width and ink are random, on paper with noise.
#include <algorithm>
#include <cmath>

#include "src/data/sets/generated.h"
#include "src/data/sets/mnist.h"

namespace lockstep {
namespace {

struct Point {
  float x, y;
};

/// The corners of each digit's stroke, x to the right and y down, in a square from 0 to 1.
// clang-format off
const std::vector<Point> kStrokes[] = {
    {{.5f, 0}, {.2f, .15f}, {.1f, .5f}, {.2f, .85f}, {.5f, 1}, {.8f, .85f}, {.9f, .5f}, {.8f, .15f}, {.5f, 0}},
    {{.3f, .25f}, {.55f, 0}, {.55f, 1}},
    {{.1f, .25f}, {.3f, .03f}, {.7f, .03f}, {.85f, .25f}, {.7f, .5f}, {.1f, 1}, {.9f, 1}},
    {{.1f, .1f}, {.5f, 0}, {.85f, .2f}, {.4f, .47f}, {.9f, .7f}, {.55f, 1}, {.1f, .9f}},
    {{.65f, 1}, {.65f, 0}, {.05f, .67f}, {.95f, .67f}},
    {{.85f, 0}, {.25f, 0}, {.2f, .45f}, {.6f, .4f}, {.9f, .7f}, {.55f, 1}, {.1f, .9f}},
    {{.7f, 0}, {.3f, .3f}, {.12f, .7f}, {.4f, 1}, {.8f, .85f}, {.75f, .55f}, {.4f, .5f}, {.15f, .75f}},
    {{.1f, 0}, {.9f, 0}, {.4f, 1}},
    {{.5f, .47f}, {.15f, .25f}, {.5f, 0}, {.85f, .25f}, {.5f, .47f}, {.1f, .75f}, {.5f, 1}, {.9f, .75f}, {.5f, .47f}},
    {{.85f, .25f}, {.6f, .5f}, {.2f, .4f}, {.2f, .12f}, {.6f, 0}, {.85f, .25f}, {.7f, 1}},
};
// clang-format on
constexpr int kClasses = std::size(kStrokes);

/// Draws a digit into `pixels`, kDigitPixels of them.
void draw(int digit, Random& random, std::uint8_t* pixels) {
  const float height = random.uniform(15.0f, 21.0f), width = height * random.uniform(0.5f, 0.9f),
              slant = random.uniform(-0.3f, 0.3f), angle = random.uniform(-0.15f, 0.15f),
              x0 = 13.5f + random.uniform(-2.5f, 2.5f), y0 = 13.5f + random.uniform(-2.5f, 2.5f),
              half_width = random.uniform(0.7f, 1.7f), ink = random.uniform(150.0f, 255.0f),
              noise = random.uniform(0.0f, 60.0f);
  const auto [cosine, sine] = Direction(angle);
  std::vector<Point> corners;
  for (const Point corner : kStrokes[digit]) {
    const float y = (corner.y - 0.5f + random.uniform(-0.06f, 0.06f)) * height,
                x = (corner.x - 0.5f + random.uniform(-0.06f, 0.06f)) * width - slant * y;
    corners.push_back({x0 + cosine * x - sine * y, y0 + sine * x + cosine * y});
  }
  float nearest[kDigitPixels];  // squared distance to the stroke
  std::fill_n(nearest, kDigitPixels, 1e9f);
  for (std::size_t i = 1; i < corners.size(); ++i) {
    const Point from = corners[i - 1];
    const float dx = corners[i].x - from.x, dy = corners[i].y - from.y,
                scale = 1 / std::max(dx * dx + dy * dy, 1e-6f);
    for (int row = 0; row < kDigitSide; ++row) {
      for (int column = 0; column < kDigitSide; ++column) {
        const float x = column - from.x, y = row - from.y,
                    along = std::clamp((x * dx + y * dy) * scale, 0.0f, 1.0f),
                    away_x = x - along * dx, away_y = y - along * dy;
        float& best = nearest[row * kDigitSide + column];
        best = std::min(best, away_x * away_x + away_y * away_y);
      }
    }
  }
  for (int i = 0; i < kDigitPixels; ++i) {
    const float covered = std::clamp(half_width + 0.5f - std::sqrt(nearest[i]), 0.0f, 1.0f);
    pixels[i] = static_cast<std::uint8_t>(
        std::clamp(ink * covered + noise * (random.uniform() - 0.5f), 0.0f, 255.0f));
  }
}

OpenedData open(const DataSource& source) {
  GeneratedSpec spec{.about = "generated digits",
                     .name = "generated digits",
                     .format = kDigitFormat,
                     .class_names = {},
                     .train = 60000,
                     .test = 10000,
                     .draw = draw};
  for (int digit = 0; digit < kClasses; ++digit) spec.class_names.push_back(std::to_string(digit));
  return generate(spec, source.seed);
}

}  // namespace

DatasetEntry digits() {
  return {.name = "digits",
          .about = "generated digits of MNIST's shape; needs no files",
          .stands_for = "mnist",
          .model = "deep_mnist",
          .steps = 500,
          .open = open};
}

}  // namespace lockstep
