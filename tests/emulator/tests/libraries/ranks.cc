// The stand-in of NCCL reports each rule that a rank breaks.
#include "tests/emulator/tests/libraries/rank.h"

namespace emulator {
namespace {

const std::string kAllReduce = "ncclAllReduce of communicator 1";

/// A call broke a rule, and was refused.
void expect_refused(ncclResult_t result, const std::string& report) {
  EXPECT_EQ(result, ncclInvalidArgument);
  EXPECT_EQ(take_reports(), Reports{report});
}

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
