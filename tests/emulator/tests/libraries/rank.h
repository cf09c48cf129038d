// Processes that are ranks, for tests of the stand-in of NCCL. They need EMULATOR_DEVICES=2.
#pragma once

#include <gtest/gtest.h>
#include <nccl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/emulator/emulator.h"

namespace emulator {

using Floats = std::vector<float>;
using Reports = std::vector<std::string>;

inline ncclResult_t connect(ncclComm_t* comm, int size, const ncclUniqueId& id, int rank) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return ncclCommInitRankConfig(comm, size, id, rank, &config);
}

/// A rank in its own process.
struct Rank {
  Rank(const ncclUniqueId& id, int size, int number, int device) : number(number) {
    EXPECT_EQ(cudaSetDevice(device), cudaSuccess) << "set EMULATOR_DEVICES=2";
    EXPECT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
    EXPECT_EQ(connect(&comm, size, id, number), ncclInProgress);
  }

  /// The state after the work of the last call.
  ncclResult_t settle() const {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) {
      if (ncclCommGetAsyncError(comm, &state) != ncclSuccess) return ncclInternalError;
      std::this_thread::yield();
    }
    return state;
  }
  void synchronize() const { EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess); }
  float* values(const Floats& values) const {
    void* data = nullptr;
    EXPECT_EQ(ncclMemAlloc(&data, values.size() * sizeof(float)), ncclSuccess);
    cudaMemcpyAsync(data, values.data(), values.size() * sizeof(float), cudaMemcpyDefault, stream);
    return static_cast<float*>(data);
  }
  Floats read(const float* data, std::size_t count) const {
    Floats result(count);
    cudaMemcpyAsync(result.data(), data, count * sizeof(float), cudaMemcpyDefault, stream);
    synchronize();
    return result;
  }
  ncclResult_t sum(const float* from, float* to, std::size_t count) const {
    return ncclAllReduce(from, to, count, ncclFloat, ncclSum, comm, stream);
  }
  ncclResult_t sum(float* data, std::size_t count) const { return sum(data, data, count); }
  void add(float* data, std::size_t count) const {
    sum(data, count);
    EXPECT_EQ(settle(), ncclSuccess);
  }
  /// A graph of one sum.
  cudaGraphExec_t graph(float* data, std::size_t count) const {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t result = nullptr;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    add(data, count);
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiate(&result, graph, 0), cudaSuccess);
    cudaGraphDestroy(graph);
    return result;
  }

  const int number;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
};

/// Runs `body` in a process for each rank. Each has to end in time, without failures and reports.
inline void in_processes(int size, const std::function<void(const ncclUniqueId&, int)>& body) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    alarm(30);
    body(id, rank);
    EXPECT_EQ(take_reports(), Reports());
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  for (int rank = 0; rank < size; ++rank) {
    int status = 1;
    waitpid(children[rank], &status, 0);
    EXPECT_EQ(status, 0) << "rank " << rank;
  }
}

/// The same with connected ranks.
inline void in_ranks(int size, const std::function<void(const Rank&)>& body) {
  in_processes(size, [&](const ncclUniqueId& id, int number) {
    setenv("EMULATOR_PATIENCE", "0", 1);
    const Rank rank(id, size, number, /*device=*/number);
    EXPECT_EQ(rank.settle(), ncclSuccess);
    body(rank);
  });
}

}  // namespace emulator
