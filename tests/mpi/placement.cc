// Placement: the same on all ranks, even if they ask for different threads.
#include "apps/step/placement.h"

#include <gtest/gtest.h>

#include "src/base/machine.h"
#include "src/device/devices.h"
#include "tests/mpi/world.h"
#include "tests/support/error_of.h"

namespace lockstep {
namespace {

TEST(Placement, GivesEveryRankAThreadAndTheHosts) {
  const Comm comm = world().comm();
  const Placement placement = place(comm, 0);
  EXPECT_GE(placement.threads, 1);
  EXPECT_EQ(placement.hosts, 1);
  EXPECT_EQ(comm.min(static_cast<std::int64_t>(placement.warning.size())),
            comm.max(static_cast<std::int64_t>(placement.warning.size())));
}

TEST(Placement, WarnsAllRanksOfAMistakeOfOne) {
  const Comm comm = world().comm();
  const int last = comm.size() - 1, own = static_cast<int>(allowed_cores().size());
  const Placement placement = place(comm, comm.rank() == last ? own + 1 : 1);
  EXPECT_EQ(placement.threads, comm.rank() == last ? own + 1 : 1);
  EXPECT_TRUE(mentions(placement.warning, {"cores"}));
}

TEST(Placement, WarnsOfMoreThreadsThanCores) {
  const Comm comm = world().comm();
  const int own = static_cast<int>(allowed_cores().size());
  if (comm.size() == 1) GTEST_SKIP() << "one rank gets another warning";
  EXPECT_TRUE(mentions(place(comm, own).warning, {"ranks"}));
}

TEST(Placement, MakesADeviceOnEveryRankOrOnNone) {
  const Comm comm = world().comm();
  Placement placement = place(comm, 1);
  EXPECT_EQ(make_device(comm, "cpu", {}, placement)->traits().description.rfind("cpu:", 0), 0u);
  EXPECT_EQ(placement.devices, "");
  EXPECT_TRUE(placement.notes.empty());
  const std::string last = devices().back().absent();
  if (last.empty()) GTEST_SKIP() << "this machine has every device";
  EXPECT_EQ(make_device(comm, "auto", {}, placement)->traits().description.rfind("cpu:", 0), 0u);
  ASSERT_EQ(placement.notes.size(), 1u) << "the same on all ranks, for rank 0 to print";
  EXPECT_TRUE(mentions(placement.notes[0], {last.substr(0, last.find(" (")), "cpu"}));
  EXPECT_FALSE(mentions(placement.notes[0], {"driver"}));
  const auto absent = [&] { make_device(comm, devices().back().name, {}, placement); };
  expect_agreed_error({last}, absent);
}

}  // namespace
}  // namespace lockstep
