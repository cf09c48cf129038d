#include "src/base/usage.h"

#include <gtest/gtest.h>

#include "src/files/file.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

TEST(Usage, CountsAllInterfacesExceptLoopback) {
  const TemporaryDirectory directory;
  replace_file(
      directory / "dev",
      "Inter-|   Receive                                                |  Transmit\n"
      " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets\n"
      "    lo:   10000   1    0    0    0     0          0         0    10000     1    0\n"
      "  eth0: 3000000000  7    1    2    3     4          5         6      500     1    0\n"
      "enp1lo:40 1 0 0 0 0 0 0 2 1\n"
      " short: 1 2 3\n");
  const Usage usage = usage_now((directory / "dev").string());
  EXPECT_EQ(usage.received, 3'000'000'040);
  EXPECT_EQ(usage.sent, 502);
  EXPECT_EQ(usage_now("/none").received, 0);
}

TEST(Usage, CountsTheProcessorAndTheMemory) {
  const Usage before = usage_now();
  Usage after = before;
  while (after.cpu_ns - before.cpu_ns < 1'000'000) after = usage_now();
  EXPECT_GT(after.at_ns, before.at_ns);
  EXPECT_GT(after.bytes, 100'000);
}

}  // namespace
}  // namespace lockstep
