// The choice between NCCL and a staged reducer, as a table.
#include <gtest/gtest.h>

#include "collectives/reducers/nccl.h"
#include "tests/support/error_of.h"

namespace lockstep {
namespace {

const RankGpu a0{"a", "GPU-0", 22809}, a1{"a", "GPU-1", 22809}, b0{"b", "GPU-2", 22809};

/// A slice of the GPU of a host.
RankGpu slice(const char* host, int number) {
  return {host, fmt::format("GPU-{}-{}", host, number), 22809, "0000:17:00"};
}

struct Row {
  const char* name;
  std::vector<RankGpu> records;
  bool canonical;
  std::vector<std::string_view> why;  ///< words of the refusal; none: NCCL is possible
};

const Row kRows[] = {
    {"one_rank", {a0}, false, {}},
    {"one_rank_is_always_canonical", {a0}, true, {}},
    {"a_gpu_each", {a0, a1, b0}, false, {}},
    {"shared", {a0, a0, a0, a0}, false, {"4 ranks", "1 GPU", "NCCL 2.28.9"}},
    {"shared_in_part", {a0, a1, a0}, false, {"3 ranks", "2 GPUs", "NCCL 2.28.9"}},
    {"canonical", {a0, b0}, true, {"--shards", "NCCL"}},
    {"slices",
     {slice("a", 0), slice("a", 1)},
     false,
     {"2 ranks", "slices", "1 GPU", "NCCL 2.28.9"}},
    {"slices_of_other_hosts", {slice("a", 0), slice("b", 1)}, false, {}},
    {"shared_slice", {slice("a", 0), slice("a", 0)}, false, {"share", "1 GPU"}},
    {"no_nccl", {a0, {"a", "GPU-1", 0}}, false, {"rank 1 (a)", "NCCL"}},
    {"two_versions",
     {a0, {"b", "GPU-2", 22703}},
     false,
     {"rank 0", "2.28.9", "rank 1 (b)", "2.27.3"}},
    {"no_device", {a0, {"b", "", 22809}}, false, {"rank 1 (b)", "CUDA"}},
};

class EveryRow : public testing::TestWithParam<Row> {};

TEST_P(EveryRow, AllowsNcclOrNamesTheReason) {
  const Row& row = GetParam();
  const std::string why = nccl_refusal(row.records, row.canonical);
  EXPECT_EQ(why.empty(), row.why.empty());
  EXPECT_TRUE(mentions(why, row.why));
}

INSTANTIATE_TEST_SUITE_P(Table, EveryRow, testing::ValuesIn(kRows),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace lockstep
