// Registries: entries by name, and errors with the nearest name and the list.
#include "src/base/table.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/support/files.h"

namespace lockstep {
namespace {

struct Entry {
  static constexpr std::string_view kind = "plan";
  std::string_view name, about;
  int value;
};
constexpr std::array kEntries{Entry{"ring", "around", 1}, Entry{"tree", "up and down", 2},
                              Entry{"halving_doubling", "apart and together", 3}};
constexpr std::span<const Entry> kTable = kEntries;

TEST(Table, FindsByName) {
  EXPECT_EQ(find(kTable, "tree").value, 2);
  EXPECT_EQ(&find(kTable, "ring"), &kTable[0]);
}

TEST(Table, AnUnknownNameIsAUsageErrorWithTheNearestAndTheList) {
  EXPECT_TRUE(mentions(error_of([] { find(kTable, "rign"); }),
                       {"plan", "\"rign\"", "\"ring\"", "ring, tree, halving_doubling"}));
  for (const char* far : {"butterfly", ""}) {
    const std::string text = error_of([=] { find(kTable, far); });
    EXPECT_TRUE(mentions(text, {fmt::format("\"{}\"", far), "ring, tree, halving_doubling"}));
    EXPECT_FALSE(mentions(text, {"\"ring\""})) << "no name is near";
  }
  try {
    find(kTable, "Ring");
    FAIL() << "names must be case-sensitive";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), kExitUsage);
  }
}

TEST(Table, NearestCountsInsertionsDeletionsAndChanges) {
  const std::vector<std::string_view> known{"steps", "seed", "shards", "checkpoint-every"};
  EXPECT_EQ(nearest("steps", known), "steps");
  EXPECT_EQ(nearest("stpes", known), "steps");
  EXPECT_EQ(nearest("sed", known), "seed");
  EXPECT_EQ(nearest("shardss", known), "shards");
  EXPECT_EQ(nearest("checkpoint-evry", known), "checkpoint-every");
  EXPECT_EQ(nearest("checkpoints-every", known), "checkpoint-every");
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
