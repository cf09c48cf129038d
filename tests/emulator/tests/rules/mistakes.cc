// Programs with one mistake each: the emulator must report it by name, in each order.
#include "tests/emulator/tests/rules/program.h"

namespace emulator {
namespace {

using Mistakes = Program;

const TestKernel one_too_many("OneTooMany", [](float* to, float*) {
  if (thread() <= kCount) store(to + thread(), 1);
});

const struct {
  TestKernel kernel;
  const char* report;
} kWrongKernels[] = {
    {{"_ZN8lockstep3OneIfEEvll", [](float* to, float*) { store(to, 1); }},
     "race of threads in [One<float>]"},
    {{"OtherLane",
      [](float* to, float*) {
        if (thread() == 7) store(to, 1);
        exchange(1, 1);  // does not order memory
        if (thread() == 0) load(to);
      }},
     "race of threads in [OtherLane]"},
    {{"LateWrite",  // by a thread that has also read, and was the last one
      [](float* to, float*) {
        if (thread() == 7) load(to);
        exchange(1, 1);
        if (thread() == 0) store(to, load(to) + 1);
      }},
     "race of threads in [LateWrite]"},
    {{"Mixed",
      [](float* to, float*) {
        if (thread() % 32 == 0) store(to, 1, /*atomic=*/thread() != 32);
      }},
     "race of threads in [Mixed]"},
    {{"LeavesEarly",
      [](float*, float*) {
        if (thread() % 32 != 5) exchange(1, 1);
      }},
     "lanes ended before a shuffle in [LeavesEarly]"},
    {{"TwoShuffles", [](float*, float*) { exchange(1, thread() % 32 < 16 ? 1 : 2); }},
     "lanes in different shuffles in [TwoShuffles]"},
    {{"HalfAWarp", [](float*, float*) { shuffle_xor(1, 1, 15, 0xffff); }},
     "a shuffle of a part of a warp in [HalfAWarp]"},
    {{"Misaligned",
      [](float* to, float*) {
        if (thread() == 0) check_access(reinterpret_cast<char*>(to) + 2, 4, false, false);
      }},
     "misaligned access by [Misaligned]"},
};

TEST_F(Mistakes, OfOneKernelAreReported) {
  for (const auto& [kernel, report] : kWrongKernels) {
    succeed(launch(kernel, first_, a_));
    expect_reports({report});
  }
}

TEST_F(Mistakes, MemoryThatIsNotTheKernelsIsReported) {
  succeed(launch(one_too_many, first_, a_));
  expect_reports({"write outside of a block by [OneTooMany]"});
  float* const large = allocate(kBytes + 4096);
  succeed(launch(one_too_many, first_, large));  // into the page that Device adds
  expect_reports({"write outside of a block by [OneTooMany]"});
  succeed(cudaMemset(large, 0, kBytes + 4097));
  expect_reports({"write outside of a block by [memset]"});
  Floats host(kCount);
  succeed(launch(increment, first_, a_, host.data()));
  expect_reports({"read of host memory by [Increment]"});
  succeed(cudaFree(large));
  succeed(launch(increment, first_, a_, large));
  expect_reports({"read of freed memory by [Increment]"});
  EXPECT_EQ(cudaFree(large), cudaErrorInvalidValue);
  expect_reports({"cudaFree of memory that is not a block"});
}

TEST_F(Mistakes, TheHostReadsTheGpusMemory) {
  if (order_is("thread")) GTEST_SKIP() << "not noticed in the order `thread`";
  EXPECT_DEATH(std::exit(static_cast<int>(*a_)), "the host touched device memory at 0x2");
}

TEST_F(Mistakes, StreamsWithoutOrderRace) {
  succeed(launch(number, first_, a_));
  succeed(launch(increment, second_, a_, b_));
  expect_race("Number", "Increment");
  // A third stream is not ordered.
  succeed(launch(number, first_, a_));
  succeed(launch(increment, first_, b_, a_));
  succeed(copy(pinned_, a_, second_));
  expect_race("Number", "copy");
  // A kernel does not wait for the copy that follows.
  succeed(copy(a_, pinned_, first_));
  succeed(cudaStreamSynchronize(first_));
  succeed(launch(increment, second_, b_, a_));
  succeed(copy(pinned_, b_, first_));
  succeed(cudaStreamSynchronize(second_));
  expect_race("Increment", "copy");
  // Work of a destroyed stream is not waited for.
  succeed(launch(number, urgent_, a_));
  succeed(cudaStreamDestroy(urgent_));
  succeed(cudaStreamCreateWithPriority(&urgent_, cudaStreamNonBlocking, 0));
  succeed(launch(increment, urgent_, a_, b_));
  expect_race("Number", "Increment");
}

TEST_F(Mistakes, AMemsetIsNotWaitedFor) {
  float* const large = allocate(6 * 4096);
  succeed(cudaMemset(large, 0, 5 * 4096));
  succeed(launch(number, first_, large + 1024));
  expect_race("memset", "Number");
  succeed(launch(number, first_, large + 1024));
  succeed(cudaMemsetAsync(large, 0, 5 * 4096, second_));
  expect_race("memset", "Number");
  succeed(cudaFree(large));
}

}  // namespace
}  // namespace emulator
