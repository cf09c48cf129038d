// The placement of ranks is the same on all of them, even if they pass different threads.
#include "apps/step/placement.h"

#include <gtest/gtest.h>

#include "src/base/machine.h"
#include "src/device/devices.h"
#include "tests/mpi/world.h"
#include "tests/support/error_of.h"

namespace lockstep {
namespace {

TEST(Placement, EveryRankHasAThreadAndKnowsTheHosts) {
  const Comm comm = world().comm();
  const Placement placement = place(comm, 0);
  EXPECT_GE(placement.threads, 1);
  EXPECT_EQ(placement.hosts, 1);
  EXPECT_EQ(comm.min(static_cast<std::int64_t>(placement.warning.size())),
            comm.max(static_cast<std::int64_t>(placement.warning.size())));
}

TEST(Placement, AnErrorOfOneRankIsThrownOnAll) {
  const Comm comm = world().comm();
  const int last = comm.size() - 1, own = static_cast<int>(allowed_cores().size());
  const Placement placement = place(comm, comm.rank() == last ? own + 1 : 1);
  EXPECT_EQ(placement.threads, comm.rank() == last ? own + 1 : 1);
  EXPECT_TRUE(mentions(placement.warning, {"cores"}));
}

TEST(Placement, MoreThreadsThanCoresOfTheNodeGiveANote) {
  const Comm comm = world().comm();
  const int own = static_cast<int>(allowed_cores().size());
  if (comm.size() == 1) GTEST_SKIP() << "the note of one rank is about its own cores";
  EXPECT_TRUE(mentions(place(comm, own).warning, {"ranks"}));
}

TEST(Placement, ADeviceIsMadeOnEveryRankOrOnNone) {
  const Comm comm = world().comm();
  Placement placement = place(comm, 1);
  EXPECT_EQ(make_device(comm, "cpu", {}, placement)->traits().description.rfind("cpu:", 0), 0u);
  EXPECT_EQ(placement.devices, "");
  EXPECT_TRUE(placement.notes.empty());
  const std::string last = devices().back().absent();
  if (last.empty()) GTEST_SKIP() << "this machine has every device";
  EXPECT_EQ(make_device(comm, "auto", {}, placement)->traits().description.rfind("cpu:", 0), 0u);
  ASSERT_EQ(placement.notes.size(), 1u) << "the same on all ranks";
  EXPECT_EQ(placement.notes[0], last + ", using cpu");
  try {
    make_device(comm, devices().back().name, {}, placement);
    ADD_FAILURE() << "there is no such device";
  } catch (const AgreedError& error) {
    const std::string words = error.what();
    EXPECT_TRUE(mentions(words, {last}));
  }
}

}  // namespace
}  // namespace lockstep
