// Mistakes in captures and with graphs.
#include <functional>
#include <thread>

#include "tests/emulator/tests/rules/program.h"

namespace emulator {
namespace {

class Captures : public Program {
 protected:
  ~Captures() override {
    cudaGraphDestroy(graph_);
    cudaGetLastError();
  }
  /// Captures what `body` enqueues. The end has this result, and these were reported.
  void capture(cudaError_t result, const std::vector<std::string>& reports,
               const std::function<void()>& body) {
    succeed(cudaStreamBeginCapture(first_, cudaStreamCaptureModeThreadLocal));
    body();
    EXPECT_EQ(cudaStreamEndCapture(first_, &graph_), result);
    expect_reports(reports);
  }
  cudaGraphExec_t executable(unsigned flags) const {
    cudaGraphExec_t result = nullptr;
    succeed(cudaGraphInstantiate(&result, graph_, flags));
    return result;
  }
  cudaGraph_t graph_ = nullptr;
};

TEST_F(Captures, ContainAllWorkOfTheirStreams) {
  capture(cudaErrorStreamCaptureUnjoined, {"a capture ends without [Number]"}, [&] {
    order(fork_, first_, second_);
    succeed(launch(number, second_, a_));
  });
  EXPECT_EQ(cudaGetLastError(), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(graph_, nullptr);
  succeed(cudaEventRecord(fork_, second_));
  capture(cudaErrorStreamCaptureInvalidated, {"a captured stream waits for an event from outside"},
          [&] {
            EXPECT_EQ(cudaStreamWaitEvent(first_, fork_, 0), cudaErrorStreamCaptureIsolation);
            EXPECT_EQ(launch(number, first_, a_), cudaErrorStreamCaptureInvalidated);
          });
  capture(cudaErrorStreamCaptureInvalidated, {"cudaEventQuery of an event of a capture"}, [&] {
    order(fork_, first_, second_);
    EXPECT_EQ(cudaEventQuery(fork_), cudaErrorCapturedEvent);
  });
  EXPECT_EQ(cudaStreamWaitEvent(second_, fork_, 0), cudaErrorCapturedEvent);
  expect_reports({"a stream waits for an event of a capture that has ended"});
  capture(cudaSuccess, {"a capture misses [Number]"},
          [&] { succeed(launch(number, second_, a_)); });
}

TEST_F(Captures, BarCallsThatWaitOrAllocate) {
  void* data = nullptr;
  float value = 1;
  succeed(cudaEventRecord(fork_, second_));
  const std::pair<const char*, std::function<cudaError_t()>> barred[] = {
      {"cudaStreamSynchronize", [&] { return cudaStreamSynchronize(second_); }},
      {"cudaEventSynchronize", [&] { return cudaEventSynchronize(fork_); }},
      {"cudaEventQuery", [&] { return cudaEventQuery(fork_); }},
      {"cudaMalloc", [&] { return cudaMalloc(&data, 1); }},
      {"cudaHostAlloc", [&] { return cudaHostAlloc(&data, 1, 0); }},
      {"cudaFree", [&] { return cudaFree(a_); }},
      {"cudaMemset", [&] { return cudaMemset(a_, 0, 1); }},
      {"a copy of pageable memory",
       [&] { return cudaMemcpyAsync(a_, &value, 4, cudaMemcpyDefault, first_); }}};
  for (const auto& [name, function] : barred)
    capture(cudaErrorStreamCaptureInvalidated, {std::string(name) + " in a capture"},
            [&] { EXPECT_EQ(function(), cudaErrorStreamCaptureUnsupported); });
}

TEST_F(Captures, OfTwoThreadsAreApart) {
  const auto begin = [&] {
    return cudaStreamBeginCapture(second_, cudaStreamCaptureModeThreadLocal);
  };
  capture(cudaErrorStreamCaptureInvalidated,
          {"a capture ends in another thread", "a captured stream waits for another capture"}, [&] {
            EXPECT_EQ(begin(), cudaErrorIllegalState);
            succeed(cudaEventRecord(fork_, first_));
            std::thread([&] {
              cudaGraph_t graph = nullptr;
              EXPECT_EQ(cudaStreamEndCapture(first_, &graph), cudaErrorStreamCaptureWrongThread);
              float* const data = allocate(1);
              succeed(begin());
              EXPECT_EQ(cudaStreamWaitEvent(second_, fork_, 0), cudaErrorStreamCaptureMerge);
              EXPECT_EQ(cudaStreamEndCapture(second_, &graph), cudaErrorStreamCaptureInvalidated);
              succeed(cudaFree(data));
            }).join();
          });
}

TEST_F(Captures, GraphsNeedThePrioritiesOfTheirStreams) {
  capture(cudaSuccess, {}, [&] {
    succeed(launch(number, first_, a_));
    order(fork_, first_, urgent_);
    succeed(launch(number, urgent_, b_));
    order(join_, urgent_, first_);
  });
  EXPECT_EQ(graphs_with("Number"), 1);
  const cudaGraphExec_t prioritized = executable(cudaGraphInstantiateFlagUseNodePriority);
  EXPECT_EQ(graphs_with("Number"), 2);
  succeed(cudaGraphExecDestroy(prioritized));
  EXPECT_EQ(graphs_with("Number"), 1);
  expect_reports({});
  succeed(cudaGraphExecDestroy(executable(0)));
  expect_reports(
      {"a graph was instantiated without cudaGraphInstantiateFlagUseNodePriority although its "
       "streams have different priorities"});
}

TEST_F(Captures, BranchesOfAGraphRace) {
  capture(cudaSuccess, {}, [&] {
    order(fork_, first_, second_);
    succeed(launch(number, first_, a_));
    succeed(launch(increment, second_, a_, b_));
    order(join_, second_, first_);
  });
  const cudaGraphExec_t branches = executable(0);
  succeed(cudaGraphLaunch(branches, first_));
  succeed(cudaGraphExecDestroy(branches));
  expect_race("Number", "Increment");
}

}  // namespace
}  // namespace emulator
