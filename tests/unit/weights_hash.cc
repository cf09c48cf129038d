// The hash of weights: the same from memory and from a checkpoint, and another for each change.
#include "apps/record/weights_hash.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "net/checkpoint.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"
#include "tests/support/layouts.h"

namespace lockstep {
namespace {

using Shapes = std::vector<ParameterSpec>;
const Shapes kShapes = {
    {"dense/weights", {2, 3}}, {"dense/biases", {2}}, {"conv1/weights", {1, 2, 2, 1}}};
/// The values of kShapes, one after the other.
const std::vector<float> kValues = {0, 0.5f, 1, 1.5f, 2, 2.5f, -1, 2, 1, 2, 3, 4};
/// The result of Python's hashlib.
constexpr const char* kHash = "600c4a5810ef363256fb8648ffcf4efbf7382ef8e86f27570f59871584a1cb50";

/// An arena with the values, and with `elsewhere` in the header and the gaps.
std::vector<float> arena_of(const Layout& layout, const std::vector<float>& values,
                            float elsewhere = 0) {
  std::vector<float> arena(static_cast<std::size_t>(layout.count), elsewhere);
  auto from = values.begin();
  for (const Parameter& parameter : layout.parameters) {
    std::copy_n(from, parameter.shape.count(), arena.begin() + parameter.range.begin);
    from += parameter.shape.count();
  }
  return arena;
}

std::string hash_of(const Shapes& shapes, const std::vector<float>& values, float elsewhere = 0) {
  const Layout layout = lay_out(shapes);
  return weights_sha256(layout, arena_of(layout, values, elsewhere).data());
}

TEST(WeightsHash, HasTheKnownValueInAnyOrder) {
  EXPECT_EQ(hash_of(kShapes, kValues), kHash);
  EXPECT_EQ(hash_of(kShapes, kValues, 7), kHash) << "the gaps do not count";
  EXPECT_EQ(
      hash_of({kShapes[2], kShapes[0], kShapes[1]}, {1, 2, 3, 4, 0, 0.5f, 1, 1.5f, 2, 2.5f, -1, 2}),
      kHash);
}

TEST(WeightsHash, EachChangeIsAnotherHash) {
  std::set<std::string> hashes = {kHash};
  for (std::size_t i = 0; i < kValues.size(); ++i) {
    std::vector<float> values = kValues;
    values[i] = std::nextafter(values[i], 9.0f);
    EXPECT_TRUE(hashes.insert(hash_of(kShapes, values)).second) << i;
  }
  std::vector<float> zero = kValues;
  zero[0] = -0.0f;
  EXPECT_TRUE(hashes.insert(hash_of(kShapes, zero)).second) << "the sign of a zero";
  Shapes shapes = kShapes;
  shapes[0].shape = {3, 2};
  EXPECT_TRUE(hashes.insert(hash_of(shapes, kValues)).second) << "the shape";
  shapes = kShapes;
  shapes[0].name = "dense/weight";
  EXPECT_TRUE(hashes.insert(hash_of(shapes, kValues)).second) << "the name";
}

TEST(WeightsHash, OnlyFiniteWeightsHaveOne) {
  for (const float odd :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    std::vector<float> values = kValues;
    values.back() = odd;
    EXPECT_EQ(hash_of(kShapes, values), kNotFinite);
    EXPECT_EQ(hash_of(kShapes, kValues, odd), kHash) << "the gaps do not count";
  }
}

TEST(WeightsHash, ACheckpointHasThatOfItsWeights) {
  const TemporaryDirectory folder;
  const Layout layout = lay_out(kShapes);
  const std::vector<float> arena = arena_of(layout, kValues),
                           momentum(static_cast<std::size_t>(layout.count), 3.0f);
  const auto file = save_checkpoint(
      folder.path(), layout,
      {{"optimizer/momentum", momentum.data()}, {"parameters", arena.data()}}, {{5, 80, 0, 1}, {}});
  EXPECT_EQ(weights_sha256(file), kHash);
  const auto other =
      save_checkpoint(folder.path(), layout, {{"ema", arena.data()}}, {{6, 96, 0, 1}, {}});
  expect_error({"step-0000000006.h5", "weights"}, [&] { weights_sha256(other); });
  expect_error({"none.h5"}, [&] { weights_sha256(folder / "none.h5"); });
}

}  // namespace
}  // namespace lockstep
