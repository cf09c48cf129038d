// Optimizers that look at a whole array: LARS, LAMB and Muon.
#include <gtest/gtest.h>

#include <cmath>
#include <span>

#include "tests/support/wrapped_device.h"
#include "tests/unit/optimizer_arenas.h"

namespace lockstep {
namespace {

constexpr double kRate = 0.02;

/// `steps` steps of `optimizer` on an array that begins at `start`.
Arenas stepped(const char* name, const OptimizerOptions& options, Shape shape, float start,
               int steps) {
  const auto optimizer = make_optimizer(name, options);
  const Layout layout = one_parameter(shape);
  Arenas arenas(layout, *optimizer, /*weight_decay=*/0.1f);
  for (std::int64_t i = 0; i < shape.count(); ++i) arenas.parameters[Layout::kHeader + i] = start;
  for (int step = 0; step < steps; ++step) {
    for (std::int64_t i = 0; i < shape.count(); ++i) {
      arenas.gradients[Layout::kHeader + i] = 0.1f * static_cast<float>(i + step);
    }
    arenas.step(layout, *optimizer, rates_of(*optimizer, step));
  }
  return arenas;
}

/// Up to what a compiler makes of sums and products that it may fuse.
void expect_near(std::span<const float> found, std::span<const float> right) {
  ASSERT_EQ(found.size(), right.size());
  for (std::size_t i = 0; i < right.size(); ++i)
    EXPECT_NEAR(found[i], right[i], 1e-6 * (1 + std::abs(right[i]))) << i;
}

TEST(Layerwise, BiasesAndZeroWeightsAreNotAdapted) {
  const OptimizerOptions momentum{{"momentum", 0.9f}}, epsilon{{"epsilon", 1e-6f}};
  for (const auto& [shape, start] : {std::pair(Shape{20}, 0.5f), {Shape{5, 4}, 0.0f}}) {
    const int steps = start == 0 ? 1 : 5;
    expect_near(stepped("lars", momentum, shape, start, steps).parameters,
                stepped("sgd", momentum, shape, start, steps).parameters);
    expect_near(stepped("lamb", epsilon, shape, start, steps).parameters,
                stepped("adam", epsilon, shape, start, steps).parameters);
  }
  EXPECT_NE(stepped("lars", momentum, {5, 4}, 0.5f, 1).parameters,
            stepped("sgd", momentum, {5, 4}, 0.5f, 1).parameters);
}

TEST(Layerwise, TheStepIsAShareOfTheArraysLength) {
  const Layout layout = small_layout();
  for (const char* name : {"lars", "lamb"}) {
    const auto optimizer = make_optimizer(name, {});
    for (const float scale : {1e-3f, 1e3f}) {
      Arenas before(layout, *optimizer);
      before.fill(layout);
      for (auto& slot : before.slots) std::fill(slot.begin(), slot.end(), 0.0f);
      for (float& g : before.gradients) g *= scale;
      Arenas after = before;
      after.step(layout, *optimizer, rates_of(*optimizer, 0));
      for (const Parameter& parameter : layout.parameters) {
        // two/weights decays, which is a part of LARS' ratio.
        if (parameter.shape.rank() == 1 || parameter.l2 > 0) continue;
        double length = 0, moved = 0;
        for (std::int64_t at = parameter.range.begin; at < parameter.range.end(); ++at) {
          const auto i = static_cast<std::size_t>(at);
          length += std::pow(before.parameters[i], 2);
          moved += std::pow(double{after.parameters[i]} - before.parameters[i], 2);
        }
        const double share = kRate * (name == std::string_view("lars") ? 0.02 : 1);
        EXPECT_NEAR(std::sqrt(moved / length), share, 1e-4 * share) << name;
      }
    }
  }
}

TEST(Layerwise, ATinyGradientCausesNoNan) {
  const Layout layout = one_parameter({5, 4});
  for (const char* name : {"lars", "lamb"}) {
    const auto optimizer = make_optimizer(name, {});
    Arenas arenas(layout, *optimizer);
    std::fill_n(arenas.parameters.begin() + Layout::kHeader, 20, 10.0f);
    arenas.gradients[Layout::kHeader] = 1e-42f;  // the others are 0
    arenas.step(layout, *optimizer, rates_of(*optimizer, 0));
    for (int i = 0; i < 20; ++i)
      EXPECT_TRUE(std::isfinite(arenas.parameters[Layout::kHeader + i])) << name << " " << i;
  }
}

TEST(Muon, BringsEveryDirectionOfFiltersToLengthsAboutOne) {
  // Singular values: those of x are taken apart by the rows, which are at right angles to each
  // other.
  const Layout layout = one_parameter({3, 2, 2, 5});
  const auto device = make_cpu_device(1);
  const auto muon = make_optimizer("muon", {{"momentum", 0.0f}, {"newton-schulz", 5.0f}});
  muon->plan(*device, layout);
  Arenas arenas(layout, *muon);
  for (int row = 0; row < 3; ++row)
    for (int i = 0; i < 4; ++i)
      arenas.gradients[Layout::kHeader + 20 * row + 4 * row + i] =
          std::pow(10.0f, static_cast<float>(-row));
  arenas.step(layout, *muon, rates_of(*muon, 0, 1));
  for (int row = 0; row < 3; ++row) {
    double squares = 0;
    for (int i = 0; i < 20; ++i) {
      const double step = arenas.parameters[Layout::kHeader + 20 * row + i];
      if (i / 4 == row) {
        squares += step * step;
        EXPECT_LT(step, 0);
      } else {
        EXPECT_NEAR(step, 0, 1e-6) << "the direction stays";
      }
    }
    EXPECT_NEAR(std::sqrt(squares), 1, 0.35) << row;
  }
}

TEST(Muon, StepsOneRowOrColumnAsSgd) {
  for (const Shape shape : {Shape{5, 1, 1}, Shape{1, 1, 5}, Shape{1, 3, 5}}) {
    expect_near(
        stepped("muon", {}, shape, 0.5f, 3).parameters,
        stepped("sgd", {{"momentum", 0.9f}, {"nesterov", 1.0f}}, shape, 0.5f, 3).parameters);
  }
}

/// One of two ranks: it works out every other piece, and has the other's answers for the rest.
class OneOfTwo : public SharedWork {
 public:
  OneOfTwo(int rank, std::vector<std::vector<float>>& answers) : rank_(rank), answers_(answers) {}
  bool mine(int number) const override { return number % 2 == rank_; }
  void share(Stream&, int number, float* values, std::int64_t count) override {
    auto& answer = answers_[number];
    if (mine(number)) {
      answer.assign(values, values + count);
    } else if (std::ssize(answer) == count) {
      std::copy(answer.begin(), answer.end(), values);
    }
  }

 private:
  int rank_;
  std::vector<std::vector<float>>& answers_;
};

TEST(Muon, RanksShareItsWork) {
  const Layout layout =
      lay_out({{"two/weights", {3, 2, 5}}, {"two/biases", {3}}, {"one/weights", {4, 3, 2, 2}}});
  const auto device = make_cpu_device(1);
  std::vector<std::vector<float>> answers(2);
  const auto step = [&](SharedWork* shared) {
    const auto muon = make_optimizer("muon", {});
    muon->plan(*device, layout);
    Arenas arenas(layout, *muon);
    arenas.fill(layout);
    arenas.step(layout, *muon, rates_of(*muon, 0), shared);
    return arenas;
  };
  const Arenas alone = step(nullptr);
  OneOfTwo first(0, answers), second(1, answers);
  EXPECT_FALSE(step(&first) == alone) << "without the other's answer";
  EXPECT_TRUE(step(&second) == alone);
  EXPECT_TRUE(step(&first) == alone);
  EXPECT_EQ(answers[0].size(), 48u) << "the most costly piece first";
}

/// The CPU as a device that gains from groups. It counts the layers of its dense plans.
class Grouping : public WrappedDevice {
 public:
  Grouping() { traits_.batches_products = true; }
  std::unique_ptr<AffinePlan> dense(const DenseSpec& spec) override {
    layers.push_back(spec.layers);
    return WrappedDevice::dense(spec);
  }
  std::vector<std::int64_t> layers;
};

TEST(Muon, GroupsFiltersOfOneShapeOnADevice) {
  const Layout layout =
      lay_out({{"four", {3, 2, 5}}, {"three", {9, 2, 3}}, {"two", {3, 2, 5}}, {"one", {9, 2, 3}}});
  // Ranges as buckets cut them: the second one completes no group.
  const auto step = [&](Device& device, std::vector<int> ends) {
    const auto muon = make_optimizer("muon", {{"unit-filters", 1.0f}});
    muon->plan(device, layout);
    Arenas arenas(layout, *muon);
    arenas.fill(layout);
    HostStream stream;
    const UpdateRates now = rates_of(*muon, 0);
    std::int64_t begin = 0;
    for (const int end : ends) {
      const std::int64_t next = Layout::aligned(layout.parameters[end].range.end());
      update(stream, layout, {begin, next - begin}, *muon, arenas.state(), &now);
      begin = next;
    }
    return arenas;
  };
  const Arenas wanted = step(*make_cpu_device(1), {3});
  Grouping device;
  EXPECT_TRUE(step(device, {3}) == wanted);
  EXPECT_EQ(device.layers, (std::vector<std::int64_t>{2, 2, 2, 2}));
  EXPECT_TRUE(step(device, {0, 1, 3}) == wanted);
}

TEST(Muon, CausesNoNanWithoutAGradient) {
  const Layout layout = one_parameter({3, 2, 5});
  const auto device = make_cpu_device(1);
  const auto muon = make_optimizer("muon", {{"unit-filters", 1.0f}});
  muon->plan(*device, layout);
  Arenas after(layout, *muon);
  after.fill(layout);
  std::fill(after.gradients.begin(), after.gradients.end(), 0.0f);
  std::fill(after.slots[0].begin(), after.slots[0].end(), 0.0f);
  after.step(layout, *muon, rates_of(*muon, 0));
  double squares = 0;
  for (const float value : after.parameters) squares += std::pow(value, 2);
  EXPECT_NEAR(squares, 3, 1e-5) << "brought to its length, and no further";
}

}  // namespace
}  // namespace lockstep
