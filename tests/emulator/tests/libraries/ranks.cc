// The stand-in of NCCL: sums over processes, states of a communicator, errors, and a report for
// each rule that a rank breaks.
#include <chrono>

#include "tests/emulator/tests/libraries/rank.h"

namespace emulator {
namespace {

const std::string kAllReduce = "ncclAllReduce of communicator 1";

/// A call broke a rule, and was refused.
void expect_refused(ncclResult_t result, const std::string& report) {
  EXPECT_EQ(result, ncclInvalidArgument);
  EXPECT_EQ(take_reports(), Reports{report});
}

/// More than a slot of shared memory.
Floats numbers(int factor, float step) {
  Floats values(150000);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(factor * static_cast<int>(i % 97 + 1)) + step;
  return values;
}

TEST(Ranks, SumInPlaceAndByAGraph) {
  for (const int size : {1, 2, 3}) {
    in_ranks(size, [&](const Rank& rank) {
      float* const data = rank.values(numbers(rank.number + 1, 0));
      const Floats own = rank.read(data, 150000);
      rank.add(data, own.size());
      EXPECT_EQ(rank.read(data, own.size()), numbers(size * (size + 1) / 2, 0));
      const cudaGraphExec_t graph = rank.graph(data, own.size());
      EXPECT_EQ(graphs_with(kAllReduce), size > 1) << "one rank runs no kernel";
      for (int step = 1; step < 4; ++step) {
        float* const next = rank.values(numbers(rank.number + 1, static_cast<float>(step)));
        cudaMemcpyAsync(data, next, own.size() * sizeof(float), cudaMemcpyDefault, rank.stream);
        cudaGraphLaunch(graph, rank.stream);
        EXPECT_EQ(rank.read(data, own.size()),
                  numbers(size * (size + 1) / 2, static_cast<float>(size * step)));
      }
      cudaGraphExecDestroy(graph);
      EXPECT_EQ(graphs_with(kAllReduce), 0);
      EXPECT_EQ(rank.sum(data, 2), size > 1 ? ncclInProgress : ncclSuccess);
      EXPECT_EQ(rank.settle(), ncclSuccess);
      rank.synchronize();
      ncclMemFree(data);
      EXPECT_EQ(ncclCommFinalize(rank.comm), ncclInProgress);
      EXPECT_EQ(rank.settle(), ncclSuccess);
      EXPECT_EQ(ncclCommDestroy(rank.comm), ncclSuccess);
    });
  }
}

TEST(Ranks, SumOutOfPlaceWithTheSameBits) {
  in_ranks(3, [](const Rank& rank) {
    Floats values = numbers(rank.number + 1, 0);
    for (float& value : values) value /= 3;
    const float* const from = rank.values(values);
    float* const to = rank.values(Floats(values.size()));
    rank.sum(from, to, values.size());
    EXPECT_EQ(rank.settle(), ncclSuccess);
    EXPECT_EQ(rank.read(from, values.size()), values);
    Floats thrice = rank.read(to, values.size());
    for (float& value : thrice) value = value + value + value;
    rank.add(to, values.size());
    EXPECT_EQ(rank.read(to, values.size()), thrice) << "all ranks have the same";
  });
}

TEST(Ranks, ThatShareADeviceAreRefused) {
  in_processes(2, [](const ncclUniqueId& id, int number) {
    const Rank rank(id, 2, number, /*device=*/0);
    EXPECT_EQ(rank.settle(), ncclInvalidUsage);
    EXPECT_NE(std::string(ncclGetLastError(rank.comm)).find("Duplicate GPU"), std::string::npos);
    EXPECT_EQ(ncclCommAbort(rank.comm), ncclSuccess);
  });
}

TEST(Ranks, ASumFailsOnRequestAndAbortEndsIt) {
  const auto body = [](const Rank& rank) {
    float* const data = rank.values({1});
    rank.add(data, 1);
    EXPECT_EQ(rank.read(data, 1), Floats{2});
    rank.add(data, 1);
    const cudaEvent_t mark = rank.mark();
    while (rank.settle() == ncclSuccess) EXPECT_EQ(cudaEventQuery(mark), cudaErrorNotReady);
    EXPECT_EQ(rank.settle(), ncclRemoteError);
    EXPECT_EQ(rank.sum(data, 1), ncclRemoteError);
    EXPECT_EQ(ncclCommAbort(rank.comm), ncclSuccess);
    rank.synchronize();  // the sum has ended
  };
  in_ranks(2, body, /*sums_until_failure=*/"2");
}

TEST(Ranks, AbortWaitsForTheSumOfAnotherCommunicator) {
  const auto body = [](const Rank& rank) {
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    const Rank other(id, 1, 0, 0);
    EXPECT_EQ(other.settle(), ncclSuccess);
    const float* const from = rank.values({1});
    rank.synchronize();
    other.sum(from, other.values({1}), 1);
    EXPECT_EQ(other.settle(), ncclSuccess);
    const cudaEvent_t mark = other.mark();
    while (other.settle() == ncclSuccess) cudaEventQuery(mark);
    EXPECT_EQ(ncclCommAbort(rank.comm), ncclSuccess);
    EXPECT_EQ(take_reports(), Reports{"ncclCommAbort waits for a sum of another communicator"});
    EXPECT_EQ(ncclCommAbort(other.comm), ncclSuccess);
  };
  in_ranks(1, body, /*sums_until_failure=*/"1");
}

TEST(Ranks, ADeadRankLeavesTheOthersWaiting) {
  in_ranks(2, [](const Rank& rank) {
    float* const data = rank.values({1});
    rank.add(data, 1);
    rank.synchronize();
    if (rank.number == 1) return;
    rank.add(data, 1);
    const cudaEvent_t mark = rank.mark();
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(200))
      EXPECT_EQ(cudaEventQuery(mark), cudaErrorNotReady);
    EXPECT_EQ(rank.settle(), ncclSuccess) << "no error";
    EXPECT_EQ(ncclCommAbort(rank.comm), ncclSuccess);
  });
}

// --- broken rules -------------------------------------------------------------------------------

TEST(RulesOfRanks, CallsThatAreTooEarlyOrTooLateAreRefused) {
  in_ranks(2, [](const Rank& rank) {
    float* const data = rank.values({1, 2});
    EXPECT_EQ(rank.sum(data, 2), ncclInProgress);
    expect_refused(rank.sum(data, 2), "ncclAllReduce before the previous call has settled");
    EXPECT_EQ(rank.settle(), ncclSuccess);
    EXPECT_EQ(rank.read(data, 2), (Floats{2, 4})) << "only the first runs";
    cudaGraph_t graph = nullptr;
    cudaStreamBeginCapture(rank.stream, cudaStreamCaptureModeThreadLocal);
    EXPECT_EQ(rank.sum(data, 1), ncclInProgress);
    EXPECT_EQ(cudaStreamEndCapture(rank.stream, &graph), cudaSuccess);
    EXPECT_EQ(rank.settle(), ncclSuccess);
    EXPECT_EQ(take_reports(), Reports{"a capture begins or ends before ncclAllReduce has settled"});
    cudaGraphDestroy(graph);
    EXPECT_EQ(ncclCommFinalize(rank.comm), ncclInProgress);
    expect_refused(ncclCommDestroy(rank.comm),
                   "ncclCommDestroy before ncclCommFinalize has settled");
    EXPECT_EQ(rank.settle(), ncclSuccess);
    expect_refused(rank.sum(data, 2), "ncclAllReduce after ncclCommFinalize");
    EXPECT_EQ(ncclCommDestroy(rank.comm), ncclSuccess);
    expect_refused(ncclCommAbort(rank.comm), "ncclCommAbort after ncclCommDestroy");
  });
}

TEST(RulesOfRanks, OtherMemoryIsRefused) {
  in_ranks(2, [](const Rank& rank) {
    Floats host(4);
    void* handle = nullptr;
    const std::string is_not = " of memory that is not the device's";
    expect_refused(rank.sum(host.data(), 4), "ncclAllReduce" + is_not);
    expect_refused(ncclCommRegister(rank.comm, host.data(), 16, &handle),
                   "ncclCommRegister" + is_not);
    expect_refused(ncclMemFree(host.data()), "ncclMemFree" + is_not);
    float *const data = rank.values({1, 2}), *const to = rank.values(Floats(2000));
    const std::string outside = " outside of a block by [" + kAllReduce + "]";
    rank.add(data, 2000);  // there are only 2
    rank.synchronize();
    EXPECT_EQ(take_reports(), Reports{"write" + outside});
    rank.sum(data, to, 2000);
    EXPECT_EQ(rank.settle(), ncclSuccess);
    rank.synchronize();
    EXPECT_EQ(take_reports(), Reports{"read" + outside});
  });
}

TEST(RulesOfRanks, MemoryIsRegisteredUntilItIsDeregistered) {
  in_ranks(2, [](const Rank& rank) {
    void *handle = nullptr, *other = nullptr;
    ncclWindow_t window = nullptr;
    float *const first = rank.values({1, 2}), *const second = rank.values({1, 2});
    EXPECT_EQ(ncclCommRegister(rank.comm, first, 8, &handle), ncclSuccess);
    EXPECT_EQ(ncclCommWindowRegister(rank.comm, second, 8, &window, 0), ncclInProgress);
    EXPECT_EQ(rank.settle(), ncclSuccess);
    expect_refused(ncclCommDeregister(rank.comm, &other),
                   "ncclCommDeregister of an unknown handle");
    expect_refused(ncclCommWindowRegister(rank.comm, second + 1, 4, &window, 0),
                   "ncclCommWindowRegister of memory that is not aligned");
    EXPECT_EQ(ncclCommWindowDeregister(rank.comm, window), ncclSuccess);
    for (float* const data : {second, first}) EXPECT_EQ(ncclMemFree(data), ncclSuccess);
    EXPECT_EQ(take_reports(), Reports{"ncclMemFree of memory that is still registered"});
  });
}

TEST(RulesOfRanks, DifferentCountsAndSumsWithoutOrderAreReported) {
  in_ranks(2, [](const Rank& rank) {
    float* const data = rank.values(Floats(1000, 1));
    rank.add(data, rank.number == 0 ? 1000 : 7);
    rank.synchronize();
    EXPECT_EQ(take_reports(), Reports{"ncclAllReduce: ranks pass different counts"});
    rank.add(data, 2);
    EXPECT_EQ(rank.read(data, 2), (Floats{2, 2}));
    Rank other = rank;
    cudaStreamCreateWithPriority(&other.stream, cudaStreamNonBlocking, 0);
    float* const second = rank.values({1});
    rank.synchronize();
    other.add(second, 1);  // the host has waited
    other.synchronize();
    EXPECT_EQ(take_reports(), Reports());
    rank.add(data, 1);
    other.add(second, 1);
    const bool turned = rank.number == 1;  // each order of the two would do
    (turned ? other : rank).synchronize();
    (turned ? rank : other).synchronize();
    EXPECT_EQ(take_reports().size(), 1u);
  });
}

TEST(RulesOfRanks, NothingEndsWhileAGraphExists) {
  in_ranks(2, [](const Rank& rank) {
    float* const data = rank.values({1});
    const cudaGraphExec_t graph = rank.graph(data, 1);
    EXPECT_EQ(ncclCommFinalize(rank.comm), ncclInProgress);
    ncclResult_t state = ncclSuccess;
    for (int look = 0; look < 10; ++look) ncclCommGetAsyncError(rank.comm, &state);
    EXPECT_EQ(state, ncclInProgress);
    EXPECT_EQ(take_reports(), Reports{"ncclCommFinalize waits for a graph that still exists"});
    EXPECT_EQ(ncclCommAbort(rank.comm), ncclSuccess);
    EXPECT_EQ(take_reports(), Reports{"ncclCommAbort waits for a graph that still exists"});
    expect_refused(rank.sum(data, 1), "ncclAllReduce after ncclCommAbort");
    cudaGraphExecDestroy(graph);
  });
}

TEST(RulesOfRanks, AnIdServesEachRankOnce) {
  in_processes(1, [](const ncclUniqueId& id, int) {
    const Rank rank(id, 1, 0, 0);
    EXPECT_EQ(rank.settle(), ncclSuccess);
    ncclComm_t comm = nullptr;
    for (const ncclUniqueId& other : {id, ncclUniqueId{}})
      expect_refused(connect(&comm, 1, other, 0),
                     "ncclCommInitRankConfig: an id that is unknown or used");
    expect_refused(connect(&comm, 2, id, 2), "ncclCommInitRankConfig: no such rank");
  });
}

}  // namespace
}  // namespace emulator
