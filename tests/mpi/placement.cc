// Where the ranks are: one answer on all of them, though they ask for different threads.
#include "apps/step/placement.h"

#include <gtest/gtest.h>

#include "src/base/machine.h"
#include "src/device/devices.h"
#include "tests/mpi/world.h"

namespace lockstep {
namespace {

TEST(Placement, every_rank_has_a_thread_and_knows_the_hosts) {
  const Comm comm = world().comm();
  const Placement placement = place(comm, 0);
  EXPECT_GE(placement.threads, 1);
  EXPECT_EQ(placement.hosts, 1);
  EXPECT_EQ(comm.min(static_cast<std::int64_t>(placement.warning.size())),
            comm.max(static_cast<std::int64_t>(placement.warning.size())));
}

TEST(Placement, a_mistake_of_one_rank_is_told_on_all) {
  const Comm comm = world().comm();
  const int last = comm.size() - 1, own = static_cast<int>(allowed_cores().size());
  const Placement placement = place(comm, comm.rank() == last ? own + 1 : 1);
  EXPECT_EQ(placement.threads, comm.rank() == last ? own + 1 : 1);
  EXPECT_NE(placement.warning.find("bound to fewer cores"), std::string::npos) << placement.warning;
}

TEST(Placement, more_threads_than_cores_of_the_node_are_told) {
  const Comm comm = world().comm();
  const int own = static_cast<int>(allowed_cores().size());
  if (comm.size() == 1) GTEST_SKIP() << "one rank alone is told of its own cores";
  EXPECT_NE(place(comm, own).warning.find("the ranks take turns"), std::string::npos);
}

TEST(Placement, rank_0_has_a_line_for_each) {
  const Comm comm = world().comm();
  Placement placement;
  placement.threads = comm.rank() + 1;
  const std::vector<std::string> lines = placement_lines(comm, placement);
  ASSERT_EQ(lines.size(), comm.rank() == 0 ? static_cast<std::size_t>(comm.size()) : 0u);
  for (std::size_t rank = 0; rank < lines.size(); ++rank) {
    EXPECT_EQ(lines[rank], fmt::format("rank {}: host {}, cores {}, {} thread{}", rank, host_name(),
                                       core_list(allowed_cores()), rank + 1, rank == 0 ? "" : "s"));
  }
}

TEST(Placement, a_device_is_made_on_every_rank_or_on_none) {
  const Comm comm = world().comm();
  Placement placement = place(comm, 1);
  EXPECT_EQ(make_device(comm, "cpu", {}, placement)->traits().description.rfind("cpu:", 0), 0u);
  EXPECT_EQ(placement.devices, "");
  EXPECT_TRUE(placement.notes.empty());
  const std::string last = devices().back().absent();
  if (last.empty()) GTEST_SKIP() << "this machine has every device";
  EXPECT_EQ(make_device(comm, "auto", {}, placement)->traits().description.rfind("cpu:", 0), 0u);
  ASSERT_EQ(placement.notes.size(), 1u) << "the same on all ranks, for rank 0 to print";
  EXPECT_EQ(placement.notes[0], last + ", using cpu");
  try {
    make_device(comm, devices().back().name, {}, placement);
    ADD_FAILURE() << "there is no such device";
  } catch (const AgreedError& error) {
    const std::string words = error.what();
    EXPECT_NE(words.find(last), std::string::npos) << words;
  }
}

}  // namespace
}  // namespace lockstep
