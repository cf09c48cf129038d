// Which reducer sums in memory of devices, by what the ranks say: a table.
#include "collectives/reducers/device_choice.h"

#include <gtest/gtest.h>

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
  const char *reducer, *why;
};

const Row kRows[] = {
    {"one_rank", {a0}, false, "nccl", "each rank has a GPU of its own"},
    {"one_rank_is_canonical_anyhow", {a0}, true, "nccl", "each rank has a GPU of its own"},
    {"a_gpu_each", {a0, a1, b0}, false, "nccl", "each rank has a GPU of its own"},
    {"shared",
     {a0, a0, a0, a0},
     false,
     "cuda_ipc",
     "4 ranks share 1 GPU, and NCCL 2.28.9 refuses shared GPUs"},
    {"shared_in_part",
     {a0, a1, a0},
     false,
     "cuda_ipc",
     "3 ranks share 2 GPUs, and NCCL 2.28.9 refuses shared GPUs"},
    {"canonical",
     {a0, a1},
     true,
     "cuda_ipc",
     "the canonical order was asked for (--shards), and NCCL has an order of its own"},
    {"canonical_far",
     {a0, b0},
     true,
     "auto",
     "the canonical order was asked for (--shards), and NCCL has an order of its own; the ranks "
     "are on 2 hosts"},
    {"shared_far",
     {a0, a0, b0},
     false,
     "auto",
     "3 ranks share 2 GPUs, and NCCL 2.28.9 refuses shared GPUs; the ranks are on 2 hosts"},
    {"too_many", Records(9, a0), false, "auto",
     "9 ranks share 1 GPU, and NCCL 2.28.9 refuses shared GPUs; cuda_ipc is for up to 8 ranks, not "
     "for 9"},
    {"no_ipc",
     {a0, with(a0, 22809, false)},
     false,
     "auto",
     "2 ranks share 1 GPU, and NCCL 2.28.9 refuses shared GPUs; the GPU of rank 1 (a) shares no "
     "memory between processes"},
    {"no_nccl", {a0, with(a1, 0, true)}, false, "cuda_ipc", "rank 1 (a) has no NCCL"},
    {"two_versions",
     {a0, with(b0, 22703, true)},
     false,
     "auto",
     "rank 0 has NCCL 2.28.9 and rank 1 (b) 2.27.3; the ranks are on 2 hosts"},
    {"no_device", {a0, {"b", "", 22809, true}}, false, "auto", "rank 1 (b) has no CUDA device"},
};

class EveryRow : public testing::TestWithParam<Row> {};

TEST_P(EveryRow, IsChosenWithItsReason) {
  const Row& row = GetParam();
  const DeviceChoice choice = choose(row.records, row.canonical);
  EXPECT_EQ(choice.reducer, row.reducer);
  EXPECT_EQ(choice.why, row.why);
  // What is chosen can be, and what is passed over for another reason than order cannot.
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

TEST(Refusal, NamesCauseAndCure) {
  EXPECT_EQ(refusal("nccl", Records{a0, a0}),
            "2 ranks share 1 GPU, and NCCL 2.28.9 refuses shared GPUs: start one rank per GPU with "
            "the same NCCL");
  EXPECT_EQ(refusal("cuda_ipc", Records{a0, b0}),
            "the ranks are on 2 hosts: choose nccl, or tree or mpi through the host");
  EXPECT_EQ(refusal("nccl", Records{{"a", "", 0, false}}),
            "rank 0 (a) has no CUDA device: --device cuda");
}

}  // namespace
}  // namespace lockstep
