// Cores and memory of this process: affinity beyond 1024 cores, quotas of control groups, and the
// shares of a node's ranks.
#include "src/base/machine.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
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
    std::ofstream(folder_ / name) << text;
  }
  TemporaryDirectory folder_;
};

TEST_F(Quota, IsInfiniteWithoutALimit) {
  EXPECT_EQ(quota(), kNone);
  put("groups", "0::/\n");
  EXPECT_EQ(quota(), kNone);
  put("root/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), kNone);
}

TEST_F(Quota, InVersion2IsTheLeastOfAllParents) {
  put("groups", "0::/batch/job\n");
  put("root/batch/job/cpu.max", "350000 100000\n");
  EXPECT_EQ(quota(), 3.5);
  put("root/batch/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota(), 1.5);
  put("root/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), 1.5);
}

TEST_F(Quota, InVersion1WorksInAContainerThatHidesThePath) {
  put("groups", "5:memory:/job\n2:cpu,cpuacct:/docker/0123\n0::/\n");
  put("root/cpu/cpu.cfs_quota_us", "200000\n");
  put("root/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 2);
  put("root/cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(quota(), kNone);
}

TEST_F(Quota, OfMemoryIsTheLeastRestAndCachedFilesAreFree) {
  put("groups", "0::/batch/job\n");
  EXPECT_EQ(memory(), kNone);
  put("root/batch/job/memory.max", "max\n");
  put("root/batch/job/memory.current", "500\n");
  EXPECT_EQ(memory(), kNone);
  put("root/batch/memory.max", "1000\n");
  put("root/batch/memory.current", "900\n");
  EXPECT_EQ(memory(), 100);
  put("root/batch/memory.stat", "anon 1\nfile 300\nactive_file 100\ninactive_file 200\n");
  EXPECT_EQ(memory(), 400);
  put("root/batch/job/memory.max", "450\n");
  EXPECT_EQ(memory(), 0) << "more is used than is allowed";
}

TEST_F(Quota, OfMemoryWorksInVersion1) {
  put("groups", "5:memory:/job\n2:cpu,cpuacct:/job\n");
  put("root/memory/job/memory.limit_in_bytes", "4000\n");
  put("root/memory/job/memory.usage_in_bytes", "1000\n");
  put("root/memory/job/memory.stat", "total_inactive_file 200\n");
  EXPECT_EQ(memory(), 3200);
}

TEST(AllowedCores, AreNotEmptyAndAscend) {
  const std::vector<int> cores = allowed_cores();
  ASSERT_FALSE(cores.empty());
  for (std::size_t i = 1; i < cores.size(); ++i) EXPECT_LT(cores[i - 1], cores[i]);
}

TEST(ShareOut, DividesEachCoreByItsUsers) {
  const std::vector<RankCores> bound = {{{0, 1}, kNone}, {{2, 3}, kNone}};
  EXPECT_EQ(share_out(bound, 0).all, 4);
  EXPECT_EQ(share_out(bound, 1).share, 2);
  const std::vector<RankCores> free(4, {{0, 1, 2, 3, 4, 5, 6, 7}, kNone});
  EXPECT_EQ(share_out(free, 3).all, 8);
  EXPECT_EQ(share_out(free, 3).share, 2);
}

TEST(ShareOut, KnowsCoresBeyond1024) {
  const std::vector<RankCores> far = {{{2000, 5000}, kNone}, {{5000}, kNone}};
  EXPECT_EQ(share_out(far, 0).all, 2);
  EXPECT_EQ(share_out(far, 0).share, 1.5);
}

TEST(ShareOut, CountsAQuota) {
  const std::vector<RankCores> ranks(2, {{0, 1, 2, 3, 4, 5, 6, 7}, 3.0});
  EXPECT_EQ(share_out(ranks, 0).all, 3);
  EXPECT_EQ(share_out(ranks, 0).share, 1.5);
}

}  // namespace
}  // namespace lockstep
