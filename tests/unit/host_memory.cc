// Ranks of a host that allocate at the same time.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "src/base/machine.h"
#include "src/device/host.h"
#include "tests/support/error_of.h"

namespace lockstep {
namespace {

constexpr std::size_t kBytes = 1 << 20;

TEST(HostMemory, WaitsForRanksThatTouchTheRest) {
  std::atomic<std::uint64_t> claims = std::uint64_t{1} << 60;  // of others: all that there is
  share_memory_claims(&claims);
  HostDevice device;
  std::atomic<bool> done = false;
  std::jthread rank([&] {
    EXPECT_NE(device.allocate(kBytes, Place::host), nullptr);
    done = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(done);
  claims = 0;
  rank.join();
  EXPECT_EQ(claims, 0u) << "its own claim ended";
  share_memory_claims(nullptr);
}

TEST(HostMemory, FailsWithNumbersIfNoOtherRankAllocates) {
  std::atomic<std::uint64_t> claims = 0;
  share_memory_claims(&claims);
  HostDevice device;
  const std::string error =
      error_of([&] { device.allocate(available_memory_bytes() + (kBytes << 10), Place::host); });
  EXPECT_TRUE(mentions(error, {"out of memory", "MiB", host_name(), "--batch", "ranks"}));
  EXPECT_EQ(claims, 0u);
  EXPECT_NE(device.allocate(kBytes, Place::host), nullptr);
  share_memory_claims(nullptr);
}

}  // namespace
}  // namespace lockstep
