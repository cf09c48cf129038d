// The reducer of NCCL with a double of the library: its calls, also after errors.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "collectives/reducers/reducers.h"
#include "tests/mpi/world.h"
#include "tests/support/async_device.h"
#include "tests/support/error_of.h"
#include "tests/support/nccl_double.h"

namespace lockstep {
namespace {

/// A reducer of NCCL's double, of three buckets of one element.
class Nccl : public testing::Test {
 protected:
  std::unique_ptr<Reducer> make(NcclDouble& library, double timeout_seconds = 60) {
    ReducerSpec spec{comm_, *device_, 48, {{0, 1}, {16, 1}, {32, 1}}};
    spec.timeout_seconds = timeout_seconds;
    return make_nccl_reducer(spec, library);
  }

  Comm comm_ = world().comm().duplicate();
  std::unique_ptr<Device> device_ = make_async_device();
};

TEST_F(Nccl, ReleasesItsMemoryThenLeavesThenIsDestroyed) {
  NcclDouble library(comm_, *device_);
  auto reducer = make(library);
  for (const int bucket : {0, 1, 2}) reducer->start(bucket);
  EXPECT_FALSE(reducer->advance());
  reducer.reset();
  EXPECT_EQ(library.calls(),
            (std::vector<std::string>{"connect", "allocate", "release", "finish", "destroy"}));
}

TEST_F(Nccl, AbortsAfterAnErrorOfTheLibraryWithoutWaitingForTheSum) {
  NcclDouble library(comm_, *device_, {.sums_until_error = 1});
  const auto reducer = make(library);
  reducer->start(0);
  EXPECT_FALSE(reducer->advance());
  EXPECT_THROW(
      {
        reducer->start(1);
        for (;;) reducer->advance();  // until the stream comes to it
      },
      Error);
  EXPECT_EQ(library.calls().back(), "abort");
  reducer->stream().synchronize();
  EXPECT_THROW(reducer->start(2), Error) << "after an abort";
}

TEST_F(Nccl, AbortsAfterAnErrorElsewhereWithoutWaitingForOthers) {
  NcclDouble library(comm_, *device_);
  EXPECT_THROW(
      {
        const auto reducer = make(library);
        fail("elsewhere");
      },
      Error);
  EXPECT_EQ(library.calls(),
            (std::vector<std::string>{"connect", "allocate", "abort", "release", "destroy"}));
}

TEST_F(Nccl, AllRanksThrowAtOnceIfOneCannotConnect) {
  const bool last = comm_.rank() == comm_.size() - 1;
  NcclDouble library(comm_, *device_, {.connects = comm_.size() == 1, .refuses = last});
  expect_agreed_error({"internal error"}, [&] { make(library); });
}

TEST_F(Nccl, ARankThatNeverConnectsMeetsTheDeadline) {
  NcclDouble library(comm_, *device_, {.connects = comm_.rank() != 0});
  expect_agreed_error({"NCCL"}, [&] { make(library, 0.05); });
  EXPECT_EQ(library.calls(), (std::vector<std::string>{"connect", "abort", "destroy"}));
}

TEST_F(Nccl, TwoVersionsAreRefusedBeforeTheyConnect) {
  if (comm_.size() == 1) GTEST_SKIP() << "one rank has one version";
  NcclDouble library(comm_, *device_, {.version = comm_.rank() == 1 ? 21805 : 22809});
  expect_agreed_error({"2.18.5", "2.28.9", "rank 0"}, [&] { make(library); });
  EXPECT_EQ(library.calls().size(), 0u);
}

}  // namespace
}  // namespace lockstep
