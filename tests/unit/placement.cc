// Which rank has which GPU, and who shares one: pure functions of what the ranks told.
#include "apps/step/placement.h"

#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace lockstep {
namespace {

const std::string kA = "GPU-1b6c7f12-0000-0000-0000-000000000000",
                  kB = "GPU-2b6c7f12-0000-0000-0000-000000000000";

TEST(Devices, OfCoresNothingIsSaid) {
  EXPECT_EQ(devices_text({{"a", "cpu:0-1", ""}, {"a", "cpu:2-3", ""}}), "");
  EXPECT_EQ(sharing_note({{"a", "cpu:0-1", ""}, {"a", "cpu:0-1", ""}}), "");
}

TEST(Devices, EachRankIsNamedWithItsOwn) {
  EXPECT_EQ(devices_text({{"a", "cuda:0", kA}, {"b", "cuda:1", kB}}),
            "rank 0: a cuda:0 (GPU-1b6c7f12), rank 1: b cuda:1 (GPU-2b6c7f12)");
  const std::string text = devices_text(std::vector<RankDevice>(20, {"a", "cuda:0", kA}));
  EXPECT_TRUE(mentions(text, {"rank 7: "}));
  EXPECT_EQ(text.find("rank 8: "), std::string::npos);
  EXPECT_TRUE(mentions(text, {", and 12 more"}));
}

TEST(Devices, OneForEachRankIsNoNote) {
  EXPECT_EQ(sharing_note({{"a", "cuda:0", kA}}), "");
  // Behind --gpu-bind each rank counts its own from 0.
  EXPECT_EQ(sharing_note({{"a", "cuda:0", kA}, {"a", "cuda:0", kB}}), "");
}

TEST(Devices, SharersAreToldByUuidWhateverTheirNumbers) {
  EXPECT_EQ(sharing_note({{"a", "cuda:0", kA}, {"a", "cuda:1", kA}}),
            "2 ranks share 1 GPU (ranks 0, 1 on a cuda:0): they take turns, one rank per GPU is "
            "faster");
  EXPECT_EQ(sharing_note({{"a", "cuda:0", kA},
                          {"a", "cuda:1", kB},
                          {"a", "cuda:0", kA},
                          {"a", "cuda:1", kB},
                          {"b", "cuda:0", "MIG-3"}}),
            "4 ranks share 2 GPUs (ranks 0, 2 on a cuda:0; ranks 1, 3 on a cuda:1): they take "
            "turns, one rank per GPU is faster");
}

}  // namespace
}  // namespace lockstep
