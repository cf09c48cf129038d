// The nearest of several names. For the errors of registries see tests/unit/registries.cc.
#include "src/base/table.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Table, NearestCountsInsertionsDeletionsAndChanges) {
  const std::vector<std::string_view> known{"steps", "seed", "shards", "checkpoint-every"};
  EXPECT_EQ(nearest("steps", known), "steps");
  EXPECT_EQ(nearest("stpes", known), "steps");
  EXPECT_EQ(nearest("sed", known), "seed");
  EXPECT_EQ(nearest("shardss", known), "shards");
  EXPECT_EQ(nearest("checkpoint-evry", known), "checkpoint-every");
  EXPECT_EQ(nearest("checkpoints-every", known), "checkpoint-every");
}

TEST(Table, ShortNamesDifferByOneChangeOrAreABeginning) {
  const std::vector<std::string_view> known{"list", "lr", "loss-scale", "ring", "cifar10", "best"};
  EXPECT_EQ(nearest("loss", known), "loss-scale");
  EXPECT_EQ(nearest("cifar", known), "cifar10");
  EXPECT_EQ(nearest("rign", known), "ring");
  EXPECT_EQ(nearest("lits", known), "list");
  for (const char* name : {"lose", "past", "xi", "l10", "wing-it"})
    EXPECT_EQ(nearest(name, known), "") << name;
  EXPECT_EQ(nearest("loss", {"list", "host"}), "");
  EXPECT_EQ(nearest("size", {"save", "side-by-side"}), "");
}

TEST(Table, NearestReturnsNoDistantName) {
  const std::vector<std::string_view> known{"steps", "checkpoint-every"};
  EXPECT_EQ(nearest("momentum", known), "");
  EXPECT_EQ(nearest("keep-checkpoints", known), "");
  EXPECT_EQ(nearest("steps", {}), "");
}

TEST(Table, TheFirstOfTwoAtTheSameDistanceIsNearest) {
  EXPECT_EQ(nearest("tre", {"true", "tree"}), "true");
  EXPECT_EQ(nearest("tre", {"tree", "true"}), "tree");
}

TEST(Table, AShortWordHasNoUnrelatedNearest) {
  // Two names of two letters are at most two changes apart. No hint is better than a wrong hint.
  EXPECT_EQ(nearest("x", {"lr", "ema"}), "");
  EXPECT_EQ(nearest("st", {"lr", "keep"}), "");
  EXPECT_EQ(nearest("l", {"lr", "ema"}), "lr");
}

}  // namespace
}  // namespace lockstep
