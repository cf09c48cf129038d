// Loss scaling: where a dynamic factor goes, which gradients a step is skipped for, and that
// nothing moves then.
#include "net/loss_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "net/clip.h"
#include "tests/support/error_of.h"
#include "tests/unit/optimizer_arenas.h"

namespace lockstep {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(),
                kNan = std::numeric_limits<float>::quiet_NaN();

/// Two parameters and a statistic; 5000 elements, so that they are several rows.
Layout some_layout() {
  return lay_out({{"a", {4000}}, {"b", {900}}, {"mean", {64}, 0, /*follow=*/0.1f}});
}

/// A scaler and what it judges.
class Scaling : public testing::Test {
 protected:
  void begin(const LossScaling& scaling) {
    scaler_ = std::make_unique<LossScaler>(*device_, layout_, scaling);
    *scaler_->state() = {.scale = scaling.scale};
  }
  /// A step whose gradients have `value` at `place`.
  const LossScale& step(std::int64_t place = 100, float value = 1) {
    std::vector<float> gradients(layout_.count, 0.5f);
    gradients[place] = value;
    now_ = {};
    scaler_->enqueue(*stream_, gradients.data(), &rates_, &now_);
    return *scaler_->state();
  }

  Layout layout_ = some_layout();
  std::unique_ptr<Device> device_ = make_cpu_device(1);
  std::unique_ptr<Stream> stream_ = device_->stream();
  std::unique_ptr<LossScaler> scaler_;
  RatesBySkips rates_;
  UpdateRates now_;
};

TEST_F(Scaling, IsDoubledAfterManyGoodStepsAndHalvedByABadOne) {
  begin({.dynamic = true, .scale = 1024, .growth_steps = 3});
  EXPECT_EQ(*scaler_->factor(), 1024);
  EXPECT_EQ(step(), (LossScale{1024, 1024, 1, 0}));
  EXPECT_EQ(now_.scale, 1.0f / 1024);
  EXPECT_EQ(now_.skip, 0);
  EXPECT_EQ(step(), (LossScale{1024, 1024, 2, 0}));
  EXPECT_EQ(step(), (LossScale{2048, 1024, 0, 0}));
  EXPECT_EQ(now_.scale, 1.0f / 1024) << "of this step's gradients";
  EXPECT_EQ(step(), (LossScale{2048, 2048, 1, 0}));
  EXPECT_EQ(step(100, kInfinity), (LossScale{1024, 2048, 0, 1}));
  EXPECT_NE(now_.skip, 0);
  EXPECT_EQ(step(100, kNan), (LossScale{512, 1024, 0, 2}));
  EXPECT_EQ(step(), (LossScale{512, 512, 1, 2}));
  EXPECT_EQ(now_.skip, 0);
  EXPECT_EQ(*scaler_->factor(), 512);
}

TEST_F(Scaling, ChecksEachElementExceptTheHeader) {
  for (const float bad : {kInfinity, -kInfinity, kNan, -kNan}) {
    for (const std::int64_t place :
         {Layout::kHeader, std::int64_t{1039}, std::int64_t{1040}, std::int64_t{4096},
          layout_.parameters[2].range.begin, layout_.count - 1}) {
      begin({.dynamic = true, .scale = 4});
      EXPECT_EQ(step(place, bad).skipped, 1) << bad << " at " << place;
    }
    begin({.dynamic = true, .scale = 4});
    EXPECT_EQ(step(0, bad).skipped, 0) << "the loss tells of itself";
    EXPECT_EQ(step(Layout::kHeader - 1, bad).skipped, 0);
    EXPECT_EQ(step(100, std::numeric_limits<float>::max()).skipped, 0);
  }
}

TEST_F(Scaling, IgnoresFrozenParameters) {
  layout_.parameters[0].rate = 0;
  begin({.dynamic = true, .scale = 4});
  EXPECT_EQ(step(layout_.parameters[0].range.begin, kInfinity).skipped, 0);
  EXPECT_EQ(step(layout_.parameters[0].range.end() - 1, kNan).skipped, 0);
  EXPECT_EQ(step(layout_.parameters[1].range.begin, kNan).skipped, 1);
  layout_.parameters[0].rate = 1;
  layout_.parameters[1].rate = 0;
  begin({.dynamic = true, .scale = 4});
  EXPECT_EQ(step(layout_.parameters[1].range.begin, kNan).skipped, 0);
  EXPECT_EQ(step(layout_.parameters[0].range.end() - 1, kNan).skipped, 1);
  EXPECT_EQ(step(layout_.parameters[2].range.begin, kNan).skipped, 2) << "a statistic follows";
}

TEST_F(Scaling, UsesTheRatesOfTheStepsThatWereNotSkipped) {
  begin({.dynamic = true, .scale = 1024});
  for (std::size_t more = 0; more < rates_.rates.size(); ++more)
    rates_.rates[more].corrections[0] = 10 - static_cast<float>(more);
  step();
  EXPECT_EQ(now_.corrections[0], 10);
  step(100, kNan);
  EXPECT_EQ(now_.corrections[0], 10);
  step(100, kNan);
  EXPECT_EQ(now_.corrections[0], 9) << "an earlier step was skipped, too";
  step();
  EXPECT_EQ(now_.corrections[0], 8);
  EXPECT_EQ(now_.scale, 1.0f / 256);
  rates_.skipped = 2;  // as is known by now
  step();
  EXPECT_EQ(now_.corrections[0], 10);
}

TEST_F(Scaling, StaysWithinItsBounds) {
  begin({.dynamic = true, .scale = 3, .growth_steps = 1});
  EXPECT_EQ(step(100, kNan).scale, 1.5f);
  EXPECT_EQ(step(100, kNan).scale, 1);
  EXPECT_EQ(step(100, kNan), (LossScale{2, 1, 0, 2}))
      << "with a factor of 1 such gradients are the model's own";
  EXPECT_EQ(now_.skip, 0);
  begin({.dynamic = true, .scale = LossScaling::kHighest / 2, .growth_steps = 1});
  step();
  EXPECT_EQ(step().scale, LossScaling::kHighest);
  EXPECT_EQ(step().scale, LossScaling::kHighest);
  EXPECT_TRUE(std::isnormal(now_.scale));
}

TEST_F(Scaling, LeavesRoomForClipping) {
  begin({.dynamic = true,
         .scale = LossScaling::kHighestClipped,
         .growth_steps = 1,
         .highest = LossScaling::kHighestClipped});
  std::vector<float> gradients(layout_.count, 1e38f);
  scaler_->enqueue(*stream_, gradients.data(), &rates_, &now_);
  EXPECT_EQ(scaler_->state()->scale, LossScaling::kHighestClipped);
  const float limit = 100;
  GradientClip(*device_, layout_, limit).enqueue(*stream_, gradients.data(), &now_);
  EXPECT_TRUE(std::isnormal(now_.scale));
  double squares = 0;
  for (const Parameter& parameter : layout_.parameters) {
    if (!parameter.stepped()) continue;
    const double clipped = static_cast<double>(now_.scale) * 1e38;
    squares += static_cast<double>(parameter.range.count) * clipped * clipped;
  }
  EXPECT_NEAR(std::sqrt(squares), limit, 1e-6 * limit);
}

TEST_F(Scaling, ClippingIsIndependentOfTheScale) {
  const GradientClip clip(*device_, layout_, 1.5f);
  std::vector<float> gradients(layout_.count);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    gradients[i] = 0.01f * static_cast<float>(i % 97);
  UpdateRates plain;
  clip.enqueue(*stream_, gradients.data(), &plain);
  ASSERT_LT(plain.scale, 1);
  begin({.dynamic = true, .scale = 65536});
  for (float& gradient : gradients) gradient *= 65536;
  scaler_->enqueue(*stream_, gradients.data(), &rates_, &now_);
  clip.enqueue(*stream_, gradients.data(), &now_);
  EXPECT_EQ(now_.scale * 65536, plain.scale);
}

TEST_F(Scaling, NothingMovesInASkippedStep) {
  for (const OptimizerEntry& entry : optimizers()) {
    SCOPED_TRACE(entry.name);
    OptimizerOptions options;
    for (const OptimizerOption& option : entry.options) {
      if (option.name == "momentum") options["momentum"] = 0.9f;
    }
    const auto optimizer = make_optimizer(entry.name, options);
    Arenas before(layout_, *optimizer, 0.1f);
    before.fill(layout_);
    std::fill(before.gradients.begin(), before.gradients.end(), kNan);
    Arenas after = before;
    UpdateRates now{.rate = 0.1f, .average_decay = 0.5f, .corrections = optimizer->corrections(0)};
    now.skip = 1;
    after.step(layout_, *optimizer, now);
    EXPECT_EQ(after.parameters, before.parameters);
    EXPECT_EQ(after.average, before.average);
    EXPECT_EQ(after.slots, before.slots);
    now.skip = 0;
    after.step(layout_, *optimizer, now);
    EXPECT_NE(after.parameters, before.parameters);
  }
}

TEST(LossScaleText, ComesBackAsItWas) {
  for (const LossScale& scale :
       {LossScale{65536, 65536, 0, 0}, LossScale{0x1p126f, 0x1p126f, 1999, 12345678901},
        LossScale{1.5f, 1.5f, 7, 1}}) {
    EXPECT_EQ(LossScale::from(scale.text()), scale) << scale.text();
  }
  EXPECT_EQ((LossScale{65536, 1, 12, 3}).text(), "scale 65536, good 12, skipped 3");
  for (const char* text :
       {"", "65536", "scale 0.5, good 1, skipped 0", "scale nan, good 1, skipped 0",
        "scale 65536, good -1, skipped 0", "scale 65536, good 1, skipped 0x",
        "scale 65536, good 99999999999, skipped 0"}) {
    EXPECT_NE(error_of([&] { LossScale::from(text); }), "") << text;
  }
}

}  // namespace
}  // namespace lockstep
