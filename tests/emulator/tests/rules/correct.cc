// Programs without a mistake: the emulator must report nothing, and their results must be right, in
// each order and with each seed. (program.h expects that there is no report.)
#include <algorithm>
#include <numeric>
#include <thread>

#include "tests/emulator/tests/rules/program.h"

namespace emulator {
namespace {

using Correct = Program;

/// to[i] = the sum of i over the warp of i
const TestKernel warp_sum("WarpSum", [](float* to, float*) {
  auto sum = static_cast<std::uint32_t>(thread());
  for (std::uint32_t distance = 16; distance > 0; distance /= 2) sum += exchange(sum, distance);
  if (thread() < kCount) store(to + thread(), static_cast<float>(sum));
});
const TestKernel count_all("CountAll",
                           [](float* to, float*) { store(to, *to + 1, /*atomic=*/true); });

/// The threads in the order in which they ran.
std::vector<int> ran;
const TestKernel note("Note", [](float*, float*) { ran.push_back(thread()); });

Floats numbers(float first) {
  Floats result(kCount);
  std::iota(result.begin(), result.end(), first);
  return result;
}

TEST_F(Correct, ShufflesAndAtomics) {
  succeed(launch(warp_sum, first_, a_));
  succeed(launch(count_all, second_, b_));
  succeed(cudaStreamSynchronize(second_));
  const Floats sums = values(a_);
  for (int i = 0; i < kCount; ++i) EXPECT_EQ(sums[i], float(i / 32 * 32 * 32 + 31 * 16));
  EXPECT_EQ(values(b_)[0], 320);
}

TEST_F(Correct, EventsAndTheHostOrderStreams) {
  for (int i = 0; i < 20; ++i) {
    succeed(launch(number, first_, a_));
    order(fork_, first_, second_);
    succeed(launch(increment, second_, b_, a_));
    succeed(copy(pinned_, b_, second_));
    order(join_, second_, first_);
  }
  EXPECT_EQ(values(b_), numbers(1));
  EXPECT_EQ(Floats(pinned_, pinned_ + kCount), numbers(1));
  succeed(launch(number, first_, a_));
  succeed(cudaEventRecord(fork_, first_));
  while (cudaEventQuery(fork_) == cudaErrorNotReady) {
  }
  succeed(launch(increment, second_, b_, a_));
  succeed(cudaEventRecord(join_, second_));
  succeed(cudaEventSynchronize(join_));
  succeed(launch(increment, first_, a_, b_));
  EXPECT_EQ(values(a_), numbers(2));
}

TEST_F(Correct, StreamsReadOneArrayAtOnce) {
  succeed(launch(number, first_, a_));
  order(fork_, first_, second_);
  succeed(launch(increment, second_, b_, a_));
  float* const own = allocate(kBytes);
  succeed(launch(increment, first_, own, a_));
  order(join_, second_, first_);
  succeed(launch(increment, first_, a_, b_));
  EXPECT_EQ(values(own), numbers(1));
  EXPECT_EQ(values(a_), numbers(2));
  succeed(launch(increment, first_, a_, own));
  succeed(cudaFree(own));  // waits for the kernel
  EXPECT_EQ(values(a_), numbers(2));
}

TEST_F(Correct, ThreadsRunInARandomOrder) {
  std::vector<std::vector<int>> orders;
  const auto of_an_earlier_warp = [](int a, int b) { return a / 32 < b / 32; };
  for (const unsigned threads : {64u, 64u, 1024u}) {
    ran.clear();
    succeed(launch(note, first_, nullptr, nullptr, threads));
    succeed(cudaStreamSynchronize(first_));
    orders.push_back(ran);
    EXPECT_FALSE(std::is_sorted(ran.begin(), ran.end()));
    std::sort(ran.begin(), ran.end());
    for (unsigned i = 0; i < threads; ++i) EXPECT_EQ(ran[i], i) << "each thread once";
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_FALSE(std::is_sorted(orders[2].begin(), orders[2].end(), of_an_earlier_warp));
}

TEST_F(Correct, EventsMeasureTime) {
  cudaEvent_t begin = nullptr, end = nullptr;
  float time = 0;
  for (cudaEvent_t* event : {&begin, &end}) succeed(cudaEventCreate(event));
  succeed(cudaEventRecord(begin, first_));
  EXPECT_EQ(cudaEventElapsedTime(&time, begin, end), cudaErrorInvalidResourceHandle);
  succeed(cudaEventRecord(end, first_));
  succeed(cudaEventRecord(fork_, first_));
  EXPECT_EQ(cudaEventElapsedTime(&time, begin, fork_), cudaErrorInvalidResourceHandle);
  succeed(cudaEventElapsedTime(&time, begin, end));
  EXPECT_GT(time, 0);
  cudaGetLastError();
  for (const cudaEvent_t event : {begin, end}) succeed(cudaEventDestroy(event));
}

TEST_F(Correct, MemoryIsNotCleared) {
  float* const own = allocate(6000);
  EXPECT_NE(values(own)[0], values(own)[0]) << "NaN";
  succeed(cudaMemset(own, 0, 6000));  // with the page that Device adds
  succeed(cudaStreamSynchronize(nullptr));
  EXPECT_EQ(values(own), Floats(kCount));
  succeed(cudaFree(own));
}

TEST_F(Correct, MemoryOfTheHostIsPageableUntilItIsRegistered) {
  Floats host(kCount, 3.0f);
  succeed(copy(b_, host.data(), first_));
  host[0] = 8;
  EXPECT_EQ(values(b_)[0], 3) << "the copy took the value at once";
  succeed(cudaHostRegister(host.data(), kBytes, cudaHostRegisterPortable));
  EXPECT_EQ(cudaHostRegister(host.data() + 1, 4, 0), cudaErrorHostMemoryAlreadyRegistered);
  succeed(launch(increment, first_, a_, host.data()));
  EXPECT_EQ(values(a_)[0], 9);
  succeed(cudaHostUnregister(host.data()));
  EXPECT_EQ(cudaHostUnregister(host.data()), cudaErrorHostMemoryNotRegistered);
  EXPECT_EQ(cudaGetLastError(), cudaErrorHostMemoryNotRegistered);
}

TEST_F(Correct, GraphsRepeatTheirForks) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  succeed(cudaStreamBeginCapture(first_, cudaStreamCaptureModeThreadLocal));
  EXPECT_TRUE(is_captured(first_));
  succeed(launch(increment, first_, a_, a_));
  order(fork_, first_, second_);
  succeed(launch(increment, second_, b_, b_));
  succeed(copy(pinned_, a_, first_));
  order(join_, second_, first_);
  succeed(launch(increment, first_, b_, b_));
  succeed(cudaStreamEndCapture(first_, &graph));
  EXPECT_FALSE(is_captured(first_));
  succeed(cudaGraphInstantiate(&executable, graph, 0));
  succeed(cudaGraphDestroy(graph));
  EXPECT_EQ(values(a_), Floats(kCount)) << "captured work does not run";
  for (int i = 0; i < 10; ++i) succeed(cudaGraphLaunch(executable, i < 5 ? first_ : second_));
  succeed(cudaGraphExecDestroy(executable));
  succeed(cudaStreamSynchronize(second_));
  EXPECT_EQ(values(a_), Floats(kCount, 10));
  EXPECT_EQ(values(b_), Floats(kCount, 20));
  EXPECT_EQ(Floats(pinned_, pinned_ + kCount), Floats(kCount, 10));
}

TEST_F(Correct, WorkOfALibraryRunsWhenItCan) {
  int calls = 0;
  enqueue("wait", first_, {{a_, 4, true}, {nullptr, 4, false}}, [&] {
    if (++calls < 3) return false;
    *a_ = 5;
    return true;
  });
  order(fork_, first_, second_);
  succeed(launch(increment, second_, b_, a_));
  succeed(cudaStreamSynchronize(second_));
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(values(b_)[0], 6);
}

TEST_F(Correct, LateAndEagerAreTheExtremes) {
  int done = 0;
  const auto count = [&] { return ++done > 0; };
  enqueue("count", first_, {}, count);
  EXPECT_TRUE(done == 0 || !order_is("late"));
  EXPECT_TRUE(done == 1 || !order_is("eager"));
  order(fork_, first_, second_);
  enqueue("count", second_, {}, count);
  succeed(cudaStreamSynchronize(first_));
  EXPECT_TRUE(done == 1 || !order_is("late")) << "the host does not wait for the second stream";
  succeed(cudaDeviceSynchronize());
  EXPECT_EQ(done, 2);
}

TEST_F(Correct, ThreadsOfTheHostCallAtTheSameTime) {
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) {
      succeed(launch(number, second_, b_));
      if (i % 10 == 0) succeed(cudaStreamSynchronize(second_));
    }
  });
  for (int i = 0; i < 100; ++i) succeed(launch(increment, first_, a_, a_));
  EXPECT_EQ(values(a_), Floats(kCount, 100));
  other.join();
}

/// 10,000s of pending operations cost no more each than a few.
TEST_F(Correct, MuchWorkIsPending) {
  for (int i = 0; i < 20000; ++i) {
    succeed(cudaMemsetAsync(a_, 0, 4, first_));
    order(fork_, first_, second_);
    succeed(cudaMemsetAsync(b_, 0, 4, second_));
  }
  succeed(cudaDeviceSynchronize());
}

}  // namespace
}  // namespace emulator
