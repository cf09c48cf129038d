// The one-pass pipeline against the tutorial's steps done one after the other in double precision.
#include "src/data/augment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "src/data/samples.h"

namespace lockstep {
namespace {

constexpr int kValues = kCropSide * kCropSide * kImageChannels;

std::vector<std::uint8_t> random_image(std::uint32_t number) {
  Random random(11, Purpose::generate, 0, number);
  std::vector<std::uint8_t> image(kImageValues);
  // Every image has its own range of values, so that means and deviations differ.
  const std::uint32_t low = random.below(100), range = 1 + random.below(156);
  for (std::uint8_t& value : image) value = static_cast<std::uint8_t>(low + random.below(range));
  return image;
}

std::vector<double> reference(const std::vector<std::uint8_t>& image, const Augmentation& how) {
  std::vector<double> y(kValues);
  const auto at = [&](int row, int column, int channel) -> double& {
    return y[(row * kCropSide + column) * kImageChannels + channel];
  };
  for (int c = 0; c < kImageChannels; ++c) {
    for (int row = 0; row < kCropSide; ++row) {
      for (int column = 0; column < kCropSide; ++column) {
        const auto inside = [](int i) { return i < 0 ? -i : i > 31 ? 62 - i : i; };
        at(row, column, c) =
            image[c * 1024 + inside(how.top + row) * 32 + inside(how.left + column)];
      }
    }
  }
  if (how.flip) {
    for (int row = 0; row < kCropSide; ++row) {
      for (int column = 0; column < kCropSide / 2; ++column) {
        for (int c = 0; c < kImageChannels; ++c)
          std::swap(at(row, column, c), at(row, 23 - column, c));
      }
    }
  }
  for (double& value : y) value += how.brightness;
  for (int c = 0; c < kImageChannels; ++c) {
    double mean = 0;
    for (int i = 0; i < 576; ++i) mean += y[i * kImageChannels + c] / 576;
    for (int i = 0; i < 576; ++i) {
      double& value = y[i * kImageChannels + c];
      value = (value - mean) * how.contrast + mean;
    }
  }
  double mean = 0, variance = 0;
  for (const double value : y) mean += value / kValues;
  for (const double value : y) variance += (value - mean) * (value - mean) / kValues;
  const double divisor = std::max(std::sqrt(variance), 1 / std::sqrt(1728.0));
  for (double& value : y) value = (value - mean) / divisor;
  return y;
}

/// The crop that a network sees; without `random` as evaluation sees it.
template <class T = float>
std::vector<T> crop_of(const std::vector<std::uint8_t>& image, Random* random = nullptr,
                       int padding = 0) {
  SampleFormat format = kCroppedImages;
  format.padding = padding;
  std::vector<T> values(kValues);
  make_sample(format, {image.data(), random, {}}, nullptr, values.data(), type_of<T>);
  return values;
}

void expect_near(const std::vector<float>& got, const std::vector<double>& want, double tolerance) {
  for (int i = 0; i < kValues; ++i) ASSERT_NEAR(got[i], want[i], tolerance) << "at " << i;
}

TEST(Augment, EqualsTheStepByStepReference) {
  for (std::uint32_t number = 0; number < 200; ++number) {
    const auto image = random_image(number);
    Random random(3, Purpose::augment, 5, number), again = random;
    expect_near(crop_of(image, &again), reference(image, Augmentation::draw(random)), 1e-4);
  }
}

TEST(Augment, CropsBeyondTheEdgesSeeTheImageReflected) {
  std::set<int> tops;
  for (std::uint32_t number = 0; number < 200; ++number) {
    const auto image = random_image(number);
    Random random(3, Purpose::augment, 5, number), same = random, again = random;
    const Augmentation how = Augmentation::draw(random, 6);
    EXPECT_EQ(how.top, static_cast<int>(same.below(21)) - 6);
    EXPECT_EQ(how.left, static_cast<int>(same.below(21)) - 6);
    tops.insert(how.top);
    expect_near(crop_of(image, &again, 6), reference(image, how), 1e-4);
  }
  EXPECT_EQ(*tops.begin(), -6);
  EXPECT_EQ(*tops.rbegin(), 14);
}

TEST(Augment, EvaluationSeesTheCentralCrop) {
  const auto image = random_image(1);
  Augmentation evaluation;
  evaluation.top = evaluation.left = 4;
  expect_near(crop_of(image), reference(image, evaluation), 1e-4);
}

TEST(Augment, AnEvenImageIsDividedByTheFloorOfTheDeviation) {
  std::vector<std::uint8_t> image(kImageValues, 200);
  expect_near(crop_of(image), std::vector<double>(kValues, 0.0), 2e-3);
  image[1024 + 4 * 32 + 4] =
      201;  // green, first pixel of the central crop: the deviation is 1 / sqrt(1728) still
  const std::vector<float> got = crop_of(image);
  EXPECT_NEAR(got[1], (1 - 1 / 1728.0) * std::sqrt(1728.0), 2e-3);
  EXPECT_NEAR(got[0], -std::sqrt(1728.0) / 1728, 2e-3);
}

TEST(Augment, Bfloat16IsTheRoundedFloat) {
  const auto image = random_image(2);
  Random random(3, Purpose::augment, 0, 2), again = random;
  const std::vector<float> floats = crop_of(image, &random);
  const std::vector<Bfloat16> halves = crop_of<Bfloat16>(image, &again);
  for (int i = 0; i < kValues; ++i) ASSERT_EQ(halves[i].bits, Bfloat16(floats[i]).bits);
}

// The order and the ranges are part of the meaning of a seed.
TEST(Augment, DrawsInTheDocumentedOrder) {
  for (std::uint32_t number = 0; number < 100; ++number) {
    Random random(9, Purpose::augment, 1, number), same(9, Purpose::augment, 1, number);
    const Augmentation how = Augmentation::draw(random);
    EXPECT_EQ(how.top, static_cast<int>(same.below(9)));
    EXPECT_EQ(how.left, static_cast<int>(same.below(9)));
    EXPECT_EQ(how.flip, same.below(2) == 1);
    EXPECT_EQ(how.brightness, same.uniform(-63.0f, 63.0f));
    EXPECT_EQ(how.contrast, same.uniform(0.2f, 1.8f));
    EXPECT_EQ(random.next(), same.next());
  }
}

}  // namespace
}  // namespace lockstep
