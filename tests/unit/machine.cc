// Cores and memory of this process: affinity beyond 1024 cores, quotas of control groups, and the
// shares of a node's ranks.
#include "src/base/machine.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "collectives/node/node_cores.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

class Quota : public testing::Test {
 protected:
  double quota() const { return core_quota(folder_ / "groups", folder_ / "root"); }
  double memory() const { return memory_quota(folder_ / "groups", folder_ / "root"); }
  void put(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    lockstep::put(folder_ / name, text + "\n");
  }
  TemporaryDirectory folder_;
};

TEST_F(Quota, IsInfiniteWithoutALimit) {
  EXPECT_EQ(quota(), kNone);
  put("groups", "0::/");
  EXPECT_EQ(quota(), kNone);
  put("root/cpu.max", "max 100000");
  EXPECT_EQ(quota(), kNone);
}

TEST_F(Quota, InVersion2IsTheLeastOfAllParents) {
  put("groups", "0::/batch/job");
  put("root/batch/job/cpu.max", "350000 100000");
  EXPECT_EQ(quota(), 3.5);
  put("root/batch/cpu.max", "150000 100000");
  EXPECT_EQ(quota(), 1.5);
  put("root/cpu.max", "max 100000");
  EXPECT_EQ(quota(), 1.5);
}

TEST_F(Quota, InVersion1WorksInAContainerThatHidesThePath) {
  put("groups", "5:memory:/job\n2:cpu,cpuacct:/docker/0123\n0::/");
  put("root/cpu/cpu.cfs_quota_us", "200000");
  put("root/cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(quota(), 2);
  put("root/cpu/cpu.cfs_quota_us", "-1");
  EXPECT_EQ(quota(), kNone);
}

TEST_F(Quota, OfMemoryIsTheLeastRestAndCachedFilesAreFree) {
  put("groups", "0::/batch/job");
  EXPECT_EQ(memory(), kNone);
  put("root/batch/job/memory.max", "max");
  put("root/batch/job/memory.current", "500");
  EXPECT_EQ(memory(), kNone);
  put("root/batch/memory.max", "1000");
  put("root/batch/memory.current", "900");
  EXPECT_EQ(memory(), 100);
  put("root/batch/memory.stat", "anon 1\nfile 300\nactive_file 100\ninactive_file 200");
  EXPECT_EQ(memory(), 400);
  put("root/batch/job/memory.max", "450");
  EXPECT_EQ(memory(), 0) << "more is used than is allowed";
}

TEST_F(Quota, OfMemoryWorksInVersion1) {
  put("groups", "5:memory:/job\n2:cpu,cpuacct:/job");
  put("root/memory/job/memory.limit_in_bytes", "4000");
  put("root/memory/job/memory.usage_in_bytes", "1000");
  put("root/memory/job/memory.stat", "total_inactive_file 200");
  EXPECT_EQ(memory(), 3200);
}

TEST(AllowedCores, AreNotEmptyAndAscend) {
  const std::vector<int> cores = allowed_cores();
  ASSERT_FALSE(cores.empty());
  for (std::size_t i = 1; i < cores.size(); ++i) EXPECT_LT(cores[i - 1], cores[i]);
}

TEST(ShareOut, DividesEachCoreByItsUsersWithinTheQuota) {
  struct Case {
    const char* what;
    std::vector<RankCores> ranks;
    double all, share_of_first;
  };
  const std::vector<int> eight{0, 1, 2, 3, 4, 5, 6, 7};
  const std::vector<Case> cases{{"bound", {{{0, 1}, kNone}, {{2, 3}, kNone}}, 4, 2},
                                {"free", std::vector<RankCores>(4, {eight, kNone}), 8, 2},
                                {"beyond 1024", {{{2000, 5000}, kNone}, {{5000}, kNone}}, 2, 1.5},
                                {"a quota", std::vector<RankCores>(2, {eight, 3.0}), 3, 1.5}};
  for (const auto& [what, ranks, all, share] : cases) {
    EXPECT_EQ(share_out(ranks, 0).all, all) << what;
    EXPECT_EQ(share_out(ranks, 0).share, share) << what;
  }
}

}  // namespace
}  // namespace lockstep
