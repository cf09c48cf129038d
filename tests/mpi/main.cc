// main() of the tests under mpirun. Every rank runs every test, and prints its own failures. A test
// that fails on one rank fails on all, so that all leave with the same exit code. A rank that
// leaves a test early waits for the others for a limited time, then ends them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <memory>

#include "collectives/comm/communicator.h"
#include "collectives/comm/flight_recorder.h"
#include "tests/mpi/world.h"
#ifdef LOCKSTEP_TESTS_ON_GPU
#include "tests/support/gpu.h"
#endif

namespace lockstep {
namespace {

World* the_world = nullptr;

constexpr auto kPatience = std::chrono::seconds(30);

class Together : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& info) override {
    world().flight_recorder().mine().phase(info.name());
  }

  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    const char* file = result.file_name() == nullptr ? "?" : result.file_name();
    fmt::print(stderr, "[rank {}] {}:{}: {}\n", world().comm().rank(), file, result.line_number(),
               result.message());
  }

  void OnTestEnd(const testing::TestInfo& info) override {
    const Comm comm = world().comm();
    const int failed = info.result()->Failed() ? 1 : 0;
    int somewhere = 0;
    MPI_Request request;
    check(MPI_Iallreduce(&failed, &somewhere, 1, MPI_INT, MPI_MAX, raw(comm), &request));
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    for (int done = 0; !done;) {
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
      if (failed && std::chrono::steady_clock::now() > deadline) {
        fmt::print(stderr, "[rank {}] {} failed here and the others do not reach its end\n",
                   comm.rank(), info.name());
        end_all_ranks(kExitFailure);
      }
    }
    if (somewhere && !failed) ADD_FAILURE() << info.name() << " failed on another rank";
  }
};

}  // namespace

World& world() { return *the_world; }

}  // namespace lockstep

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
#ifdef LOCKSTEP_TESTS_ON_GPU
  if (const int code = lockstep::skip_without_gpu(); code != 0) return code;
#endif
  return lockstep::run_main(argc, argv, argv[0], [](lockstep::World& world) {
    lockstep::the_world = &world;
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    std::unique_ptr<testing::TestEventListener> printer(
        listeners.Release(listeners.default_result_printer()));
    listeners.Append(new lockstep::Together);
    if (world.comm().rank() == 0) listeners.Append(printer.release());
    const int failed = RUN_ALL_TESTS();
    return world.comm().max(failed) == 0 ? lockstep::kExitSuccess : lockstep::kExitFailure;
  });
}
