// The reducer of NCCL with a double of the library: its calls, also after errors.
#include <gtest/gtest.h>
#include <sched.h>

#include <string>
#include <vector>

#include "collectives/reducers/reducers.h"
#include "src/base/clock.h"
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

/// Starts sums from `bucket` on, and looks until the library reports an error.
void run_into_error(Reducer& reducer, int bucket) {
  EXPECT_THROW(
      {
        reducer.start(bucket);
        for (;;) reducer.advance();  // until the stream comes to it
      },
      Error);
}

TEST_F(Nccl, AfterAnErrorOfTheLibraryAnAbortEndsTheSum) {
  NcclDouble library(comm_, *device_, {.sums_until_error = 1});
  auto reducer = make(library);
  reducer->start(0);
  EXPECT_FALSE(reducer->advance());
  run_into_error(*reducer, 1);
  EXPECT_EQ(library.calls().back(), "allocate") << "a graph may still contain sums";
  reducer->abort();
  reducer->stream().synchronize();
  EXPECT_THROW(reducer->start(2), Error) << "after an abort";
  EXPECT_THROW(reducer->advance(), Error);
  reducer->abort();  // has no effect
  reducer.reset();
  EXPECT_EQ(library.calls(),
            (std::vector<std::string>{"connect", "allocate", "abort", "release", "destroy"}));
}

TEST_F(Nccl, IsAbortedByItsDestructorAfterAnError) {
  NcclDouble library(comm_, *device_, {.sums_until_error = 0});
  auto reducer = make(library);
  run_into_error(*reducer, 0);
  reducer.reset();  // no exception is on its way
  EXPECT_EQ(library.calls()[2], "abort");
}

/// Each abort waits for the device, and so for the sum of the other.
TEST_F(Nccl, TwoAreAbortedSideBySide) {
  NcclDouble library(comm_, *device_, {.sums_until_error = 0}),
      another(comm_, *device_, {.sums_until_error = 0});
  const auto first = make(library), second = make(another);
  run_into_error(*first, 0);
  run_into_error(*second, 0);
  first->abort();
  second->abort();
  first->stream().synchronize();
  second->stream().synchronize();
}

TEST_F(Nccl, ADeadlineEndsTheWaitForAnAbort) {
  NcclDouble library(comm_, *device_, {.sums_until_error = 0, .abort_seconds = 0.3});
  auto reducer = make(library, 0.05);
  run_into_error(*reducer, 0);
  const double began = now_seconds();
  reducer.reset();
  EXPECT_LT(now_seconds() - began, 0.25);
  while (library.alive()) sched_yield();
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

TEST_F(Nccl, GpusOfAllRanksAreGatheredAlsoWithEmptyNames) {
  const std::string pci = comm_.rank() == 0 ? "" : "0000:17:00";
  const auto gpus = gather_gpus(comm_, {"host", "", comm_.rank(), pci});
  ASSERT_EQ(gpus.size(), static_cast<std::size_t>(comm_.size()));
  EXPECT_EQ(gpus.front().pci, "");
  EXPECT_EQ(gpus.back().nccl, comm_.size() - 1);
  EXPECT_EQ(gpus.back().pci, comm_.size() == 1 ? "" : "0000:17:00");
}

}  // namespace
}  // namespace lockstep
