// Mistakes in captures and with graphs, and what the settings of the emulator do.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
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

// --- settings, seen from outside ----------------------------------------------------------------

/// Runs a disabled test of this program with `environment`, "NAME='value'". Its end and text.
std::pair<int, std::string> run_child(const std::string& environment, const std::string& test) {
  char part[4096];
  std::snprintf(part, sizeof part,
                "%s /proc/%d/exe --gtest_also_run_disabled_tests 2>&1 "
                "--gtest_filter='*_%s'",
                environment.c_str(), getpid(), test.c_str());
  std::FILE* const pipe = popen(part, "r");
  std::string text;
  while (std::fgets(part, sizeof part, pipe) != nullptr) text += part;
  return {WEXITSTATUS(pclose(pipe)), text};
}

using InAChild = Program;

TEST_F(InAChild, DISABLED_Nothing) {}
TEST(InAChildAlone, DISABLED_Report) {
  report("a mistake", "twice");
  report("a mistake");
}
TEST(InAChildAlone, DISABLED_NoDevice) {
  int count = -1;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
  EXPECT_EQ(cudaSetDevice(0), cudaErrorInvalidDevice);
}
TEST_F(InAChild, DISABLED_Devices) {
  succeed(cudaSetDevice(1));
  EXPECT_EQ(launch(number, first_, a_), cudaErrorInvalidResourceHandle) << "a stream of device 0";
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  cudaDeviceProp one{}, other{};
  succeed(cudaGetDeviceProperties(&one, 0));
  succeed(cudaGetDeviceProperties(&other, 1));
  EXPECT_NE(one.uuid.bytes[0], other.uuid.bytes[0]);
}
TEST_F(InAChild, DISABLED_Memory) {
  void* data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, 1), cudaErrorMemoryAllocation) << "the third call";
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMalloc(&data, std::size_t{1} << 20), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&data, std::size_t{1} << 20), cudaErrorMemoryAllocation) << "MEMORY";
}
TEST_F(InAChild, DISABLED_Kernel) {
  for (int i = 0; i < 2; ++i) launch(number, first_, a_);  // the second may fail at once
  bool ran = false;
  enqueue("later", first_, {}, [&] { return ran = true; });
  EXPECT_EQ(cudaStreamSynchronize(first_), cudaErrorIllegalAddress);
  EXPECT_FALSE(ran);
  EXPECT_EQ(cudaMemset(a_, 0, 1), cudaErrorIllegalAddress);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress) << "for ever";
  std::exit(testing::Test::HasFailure() ? 1 : 0);
}

TEST(Settings, AreObeyed) {
  const std::string path = testing::TempDir() + "reports." + std::to_string(getpid());
  const struct {
    std::string environment, test;
    int end;
    std::vector<std::string> parts;
  } runs[] = {{"", "Nothing", 0, {}},
              {"EMULATOR_STATISTICS=1",
               "Report",
               kExitReported,
               {"a mistake: twice\n", "2 times: a mistake\n", "0 kernels with"}},
              {"EMULATOR_REPORT=" + path, "Report", kExitReported, {}},
              {"EMULATOR_DEVICES=0", "NoDevice", 0, {}},
              {"EMULATOR_DEVICES=2", "Devices", 0, {}},
              {"EMULATOR_FAIL='cudaMalloc 3' EMULATOR_MEMORY=2", "Memory", 0, {}},
              {"EMULATOR_FAIL='kernel 2'", "Kernel", 0, {}},
              {"EMULATOR_ORDER=often", "Nothing", kExitReported, {"EMULATOR_ORDER is \""}},
              {"EMULATOR_SEED=one", "Nothing", kExitReported, {"EMULATOR_SEED is \""}},
              {"EMULATOR_DEVICES=-1", "Nothing", kExitReported, {"EMULATOR_DEVICES is \""}},
              {"EMULATOR_MEMORY=8G", "Nothing", kExitReported, {"EMULATOR_MEMORY is \""}},
              {"EMULATOR_FAIL=cudaMalloc", "Nothing", kExitReported, {"EMULATOR_FAIL is \""}},
              {"EMULATOR_FAIL='cudaMalloc 0'", "Nothing", kExitReported, {"EMULATOR_FAIL is \""}},
              {"EMULATOR_STATISTICS=yes", "Nothing", kExitReported, {"EMULATOR_STATISTICS is \""}}};
  for (const auto& [environment, test, end, parts] : runs) {
    const auto [exit_code, text] = run_child(environment, test);
    EXPECT_EQ(exit_code, end) << environment << '\n' << text;
    for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  EXPECT_EQ(std::system(("grep -q 'a mistake: twice' " + path).c_str()), 0);
  EXPECT_EQ(std::remove(path.c_str()), 0);
}

}  // namespace
}  // namespace emulator
