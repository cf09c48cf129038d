// Which rank has which GPU, and which ranks share one.
#include "apps/step/placement.h"

#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace lockstep {
namespace {

const std::string kA = "GPU-1b6c7f12-0000-0000-0000-000000000000",
                  kB = "GPU-2b6c7f12-0000-0000-0000-000000000000";

TEST(Devices, CoresAreNotNamed) {
  EXPECT_EQ(devices_text({{"a cpu:0-1", ""}, {"a cpu:2-3", ""}}), "");
  EXPECT_EQ(sharing_note({{"a cpu:0-1", ""}, {"a cpu:0-1", ""}}), "");
}

TEST(Devices, EachRankIsNamedWithItsOwn) {
  EXPECT_EQ(devices_text({{"a cuda:0", kA}, {"b cuda:1", kB}}),
            "rank 0: a cuda:0 (GPU-1b6c7f12), rank 1: b cuda:1 (GPU-2b6c7f12)");
  const std::string text = devices_text(std::vector<RankDevice>(20, {"a cuda:0", kA}));
  EXPECT_TRUE(mentions(text, {"rank 7: ", ", and 12 more"}));
  EXPECT_EQ(text.find("rank 8: "), std::string::npos);
}

TEST(Devices, SharersAreFoundByUuidWhateverTheirNumbers) {
  EXPECT_EQ(sharing_note({{"a cuda:0", kA}}), "");
  EXPECT_EQ(sharing_note({{"a cuda:0", kA}, {"a cuda:0", kB}}), "")
      << "with --gpu-bind each rank counts its own from 0";
  EXPECT_TRUE(mentions(sharing_note({{"a cuda:0", kA},
                                     {"a cuda:1", kB},
                                     {"a cuda:0", kA},
                                     {"a cuda:1", kB},
                                     {"b cuda:0", "MIG-3"}}),
                       {"4 ranks", "2 GPUs", "ranks 0, 2 on a cuda:0; ranks 1, 3 on a cuda:1"}));
}

}  // namespace
}  // namespace lockstep
