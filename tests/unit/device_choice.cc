// The choice of the reducer for GPUs from the records of the ranks: a table.
#include "collectives/reducers/device_choice.h"

#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace lockstep {
namespace {

using Records = std::vector<RankGpu>;

const RankGpu a0{"a", "GPU-0", 22809, true}, a1{"a", "GPU-1", 22809, true},
    b0{"b", "GPU-2", 22809, true};

RankGpu with(RankGpu record, int nccl, bool ipc) {
  record.nccl = nccl;
  record.ipc = ipc;
  return record;
}

struct Row {
  const char* name;
  Records records;
  bool canonical;
  const char* reducer;
  std::vector<std::string_view> why;  ///< words of the reason
};

const Row kRows[] = {
    {"one_rank", {a0}, false, "nccl", {"GPU"}},
    {"one_rank_is_always_canonical", {a0}, true, "nccl", {"GPU"}},
    {"a_gpu_each", {a0, a1, b0}, false, "nccl", {"GPU"}},
    {"shared", {a0, a0, a0, a0}, false, "cuda_ipc", {"4 ranks", "1 GPU", "NCCL 2.28.9"}},
    {"shared_in_part", {a0, a1, a0}, false, "cuda_ipc", {"3 ranks", "2 GPUs", "NCCL 2.28.9"}},
    {"canonical", {a0, a1}, true, "cuda_ipc", {"--shards", "NCCL"}},
    {"canonical_far", {a0, b0}, true, "auto", {"--shards", "NCCL", "2 hosts"}},
    {"shared_far", {a0, a0, b0}, false, "auto", {"3 ranks", "2 GPUs", "NCCL 2.28.9", "2 hosts"}},
    {"too_many",
     Records(9, a0),
     false,
     "auto",
     {"9 ranks", "1 GPU", "NCCL 2.28.9", "cuda_ipc", "8 ranks"}},
    {"no_ipc",
     {a0, with(a0, 22809, false)},
     false,
     "auto",
     {"2 ranks", "1 GPU", "NCCL 2.28.9", "rank 1 (a)", "memory"}},
    {"no_nccl", {a0, with(a1, 0, true)}, false, "cuda_ipc", {"rank 1 (a)", "NCCL"}},
    {"two_versions",
     {a0, with(b0, 22703, true)},
     false,
     "auto",
     {"rank 0", "2.28.9", "rank 1 (b)", "2.27.3", "2 hosts"}},
    {"no_device", {a0, {"b", "", 22809, true}}, false, "auto", {"rank 1 (b)", "CUDA"}},
};

class EveryRow : public testing::TestWithParam<Row> {};

TEST_P(EveryRow, IsChosenWithItsReason) {
  const Row& row = GetParam();
  const DeviceChoice choice = choose(row.records, row.canonical);
  EXPECT_EQ(choice.reducer, row.reducer);
  EXPECT_TRUE(mentions(choice.why, row.why));
  // The chosen reducer is possible, and a reducer that comes before it is not.
  if (choice.reducer != "auto") {
    EXPECT_EQ(refusal(choice.reducer, row.records), "");
  } else {
    EXPECT_NE(refusal("cuda_ipc", row.records), "");
  }
  if (choice.reducer != "nccl" && !row.canonical) {
    EXPECT_NE(refusal("nccl", row.records), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Table, EveryRow, testing::ValuesIn(kRows),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Refusal, NamesReasonAndFix) {
  EXPECT_TRUE(mentions(refusal("nccl", Records{a0, a0}), {"2 ranks", "1 GPU", "NCCL 2.28.9"}));
  EXPECT_TRUE(mentions(refusal("cuda_ipc", Records{a0, b0}), {"2 hosts", "nccl", "tree", "mpi"}));
  EXPECT_TRUE(
      mentions(refusal("nccl", Records{{"a", "", 0, false}}), {"rank 0 (a)", "--device cuda"}));
}

}  // namespace
}  // namespace lockstep
