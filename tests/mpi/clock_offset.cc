// Clocks with known differences, as if each rank or each pair of ranks were a host.
#include "collectives/comm/clock_offset.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "collectives/comm/flight_recorder.h"
#include "tests/mpi/world.h"

namespace lockstep {
namespace {

TEST(ClockOffset, IsCorrectWithinItsError) {
  const Comm comm = world().comm().duplicate();
  for (const int ranks_of_a_host : {1, 2}) {
    const int host = comm.rank() / ranks_of_a_host;
    const Comm node = group_of(comm, host);
    const std::int64_t behind = std::int64_t{host} * 7'000'000'000;
    const ClockOffset offset = clock_offset(comm, node, [&] {
      EXPECT_TRUE(world().flight_recorder().mine().read().waiting) << "for the watchdog";
      return now_ns() - behind;
    });
    EXPECT_FALSE(world().flight_recorder().mine().read().waiting);
    if (host == 0) {
      EXPECT_EQ(offset.ns, 0);
      EXPECT_EQ(offset.error_ns, 0);
      continue;
    }
    EXPECT_LE(std::abs(offset.ns - behind), offset.error_ns);
    EXPECT_GT(offset.error_ns, 0);
    EXPECT_LT(offset.error_ns, 1'000'000'000);
    EXPECT_EQ(node.min(offset.ns), node.max(offset.ns)) << "one clock for a host";
  }
}

}  // namespace
}  // namespace lockstep
