// A link that an earlier run has measured, as if each rank were on a host of its own.
#include "collectives/known_link.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <optional>

#include "collectives/communicator.h"
#include "tests/mpi/world.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

class KnownLinks : public testing::Test {
 protected:
  KnownLinks() {
    if (comm_.rank() == 0) own_.emplace();
    folder_ = comm_.broadcast(own_ ? own_->path().string() : std::string());
    MPI_Comm handle = MPI_COMM_NULL;
    check(MPI_Comm_split(raw(comm_), comm_.rank(), 0, &handle));
    node_.emplace(std::make_shared<const Communicator>(handle, /*owned=*/true));
  }
  ~KnownLinks() override { comm_.barrier(); }

  KnownLink known(const std::filesystem::path& folder) {
    return known_link(comm_, *node_, folder, [this](const Comm&, const Comm&, int rounds) {
      rounds_.push_back(rounds);
      return link_;
    });
  }
  /// The one file there, on rank 0.
  std::filesystem::path file() const {
    return std::filesystem::directory_iterator(folder_ / "new")->path();
  }

  Comm comm_ = world().comm().duplicate();
  std::optional<TemporaryDirectory> own_;
  std::optional<Comm> node_;
  std::filesystem::path folder_;
  Link link_{1e-4 / 3, 1e9 / 7, 1e10 / 3};  ///< as it is now
  std::vector<int> rounds_;                 ///< of the measurements so far
};

TEST_F(KnownLinks, the_next_run_has_the_numbers_of_the_first_on_all_ranks) {
  const KnownLink first = known(folder_ / "new"), next = known(folder_ / "new");
  EXPECT_EQ(first.origin, "measured now");
  EXPECT_EQ(next.origin, "measured before");
  EXPECT_EQ(first.link.latency, next.link.latency);
  EXPECT_EQ(first.link.bandwidth, next.link.bandwidth);
  EXPECT_EQ(first.link.add_rate, next.link.add_rate);
  EXPECT_EQ(rounds_, (std::vector{kRounds, kGlance}));
  EXPECT_EQ(known({}).origin, "measured now");
  EXPECT_EQ(known("/proc/none").origin, "measured now") << "nowhere to keep it";
  EXPECT_EQ(known_link(comm_, *node_, {}).origin, "measured now") << "in earnest";
}

TEST_F(KnownLinks, what_a_glance_sees_otherwise_is_measured_anew) {
  link_.latency *= 1000;  // on a busy machine
  known(folder_ / "new");
  link_.latency /= 1000;
  const std::string busy = known(folder_ / "new").origin;
  EXPECT_EQ(busy, "measured now, for 33333 us and 0.143 GB/s no longer hold");
  link_.latency *= 1.5;  // it is not always the same
  const KnownLink next = known(folder_ / "new");
  EXPECT_EQ(next.origin, "measured before");
  EXPECT_EQ(next.link.latency, link_.latency / 1.5);
  EXPECT_EQ(rounds_, (std::vector{kRounds, kGlance, kRounds, kGlance}));
}

TEST_F(KnownLinks, what_is_no_such_file_is_measured_anew_with_the_reason) {
  known(folder_ / "new");
  if (comm_.rank() == 0) put(file(), "lockstep link of nobody\nlatency = 1\n");
  comm_.barrier();
  std::string origin = known(folder_ / "new").origin;
  EXPECT_NE(origin.find("is ignored: it is of other circumstances"), std::string::npos) << origin;
  EXPECT_EQ(known(folder_ / "new").origin, "measured before") << "it was mended";
  if (comm_.rank() == 0) {
    const std::filesystem::path pipe = file();
    std::filesystem::remove(pipe);
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  }
  comm_.barrier();
  origin = known(folder_ / "new").origin;
  EXPECT_NE(origin.find("is ignored: it is no file"), std::string::npos) << origin;
}

TEST_F(KnownLinks, an_old_one_is_measured_anew) {
  known(folder_ / "new");
  if (comm_.rank() == 0) {
    const auto then = std::filesystem::file_time_type::clock::now() - std::chrono::hours(25);
    std::filesystem::last_write_time(file(), then);
  }
  comm_.barrier();
  EXPECT_EQ(known(folder_ / "new").origin, "measured now");
}

}  // namespace
}  // namespace lockstep
