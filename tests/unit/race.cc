// The rules of a race of plans: plans that are fast, slow, wrong, or fail.
#include "src/device/cuda/race.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/error_of.h"
#include "tests/support/race_track.h"

namespace lockstep::cuda {
namespace {

using Fault = PaperPlan::Fault;
using Names = std::vector<std::string>;

/// Races `field` and keeps what happened.
class Racing : public testing::Test {
 protected:
  std::string winner_of(const std::vector<PaperPlan>& field, double limit = Race::kLimit) {
    auto track = std::make_unique<PaperTrack>();
    PaperTrack& seen = *track;
    Race race(std::move(track), limit);
    Plans plans;
    for (const PaperPlan& plan : field) plans.push_back(std::make_shared<PaperPlan>(plan));
    const std::string winner = plans[race.winner(work_, plans)]->name();
    runs_ = seen.runs;
    race.winner(work_, plans);  // warns of nothing that it has warned of
    warnings_ = race.warnings();
    return winner;
  }

  const Convolution work_{.x = {2, 1, 1, 3}, .w = {4, 1, 1, 3}, .y = {2, 1, 1, 4}};
  Names runs_, warnings_;
};

TEST_F(Racing, TheFastestWins) {
  EXPECT_EQ(winner_of({{"a", 3}, {"b", 1}, {"c", 2}}), "b");
  EXPECT_EQ(winner_of({{"a", 1}, {"b", 1}}), "a") << "the library prefers it";
  EXPECT_EQ(runs_, (Names{"a", "b"}));
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(Racing, APlanThatFailsIsLeftOut) {
  EXPECT_EQ(winner_of({{"a", 0.1f, 1, Fault::refuses}, {"b", 2}, {"c", 1}}), "c");
  EXPECT_EQ(winner_of({{"a", 3}, {"b", 0.1f, 1, Fault::fails_later}, {"c", 2}}), "c");
  // A plan that fails later is no reference for the others either.
  EXPECT_EQ(winner_of({{"a", 0.1f, 7, Fault::fails_later}, {"b", 3}, {"c", 2}}), "c");
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(Racing, AWrongPlanNeverWins) {
  for (const double wrong :
       {0.9, 1.015, 0.0, std::nan(""), std::numeric_limits<double>::infinity()})
    EXPECT_EQ(winner_of({{"a", 3}, {"b", 0.1f, wrong}, {"c", 2}}), "c") << wrong;
  ASSERT_EQ(warnings_.size(), 1u) << "not again in the second race";
  EXPECT_TRUE(mentions(warnings_[0], {"kernel b ", "forward fp32 2x1x1x3", "that of c"}));
  EXPECT_EQ(winner_of({{"a", 3}, {"b", 0.1f, 1.001}}), "b") << "it is rounded in another way";
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(Racing, MostPlansDecideWhichResultIsRight) {
  for (const double wrong : {0.9, std::nan("")}) {
    EXPECT_EQ(winner_of({{"a", 0.1f, wrong}, {"b", 3}, {"c", 2}, {"d", 0.2f, 0.5}}), "c");
    ASSERT_EQ(warnings_.size(), 2u);
    EXPECT_TRUE(mentions(warnings_[0] + warnings_[1], {"kernel a ", "kernel d "}));
  }
  EXPECT_EQ(winner_of({{"a", 2}, {"b", 1, 0.5}}), "a") << "one against one";
  EXPECT_EQ(winner_of({{"a", 2, std::nan("")}, {"b", 3, 0.5}}), "b");
  EXPECT_EQ(winner_of({{"a", 3, 1}, {"b", 2, 2}, {"c", 1, 3}}), "a") << "no two agree";
}

TEST_F(Racing, APlanThatCostsTheDeviceIsNamed) {
  for (const std::vector<PaperPlan>& field : std::vector<std::vector<PaperPlan>>{
           {{"a", 2}, {"eng5", 1, 1, Fault::kills}, {"c", 3}}, {{"eng5", 1, 1, Fault::kills}}}) {
    const std::string error = error_of([&] { winner_of(field); });
    EXPECT_TRUE(
        mentions(error, {"kernel eng5 stops the GPU", "forward fp32", "an illegal address"}));
  }
}

TEST_F(Racing, AtLeastOnePlanMustWork) {
  const std::string error = error_of([&] {
    winner_of({{"a", 1, 1, Fault::refuses}, {"b", 1, std::nan("")}});
  });
  EXPECT_TRUE(mentions(error, {"all 2 kernels for forward fp32", "--precision"}));
}

TEST_F(Racing, EndsWithTheBestSoFarWhenTheTimeIsOver) {
  EXPECT_EQ(winner_of({{"a", 3}, {"b", 1}}, 0), "a");
  EXPECT_EQ(runs_, (Names{"a"}));
  EXPECT_EQ(winner_of({{"a", 3, 1, Fault::refuses}, {"b", 2}, {"c", 1}}, 0), "b")
      << "only plans that run count";
  EXPECT_EQ(winner_of({{"a", 3}, {"b", 2, 1, Fault::pauses}, {"c", 1}}, 0.5), "b");
  EXPECT_EQ(runs_, (Names{"a", "b"}));
}

}  // namespace
}  // namespace lockstep::cuda
