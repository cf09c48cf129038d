#include "apps/step/rank_options.h"

#include "collectives/buckets.h"
#include "collectives/reducer.h"
#include "src/base/table.h"

namespace lockstep {
namespace {

constexpr double kLargestBucket = 1 << 20;  // MiB: more than any model has
constexpr double kMostCtas = 64;            // of NCCL: its channels

/// "f32" and "f16" too.
Type parse_wire(const std::string& name) {
  const std::string full = name == "f32" || name == "f16" ? "fp" + name.substr(1) : name;
  one_of("--wire", {"fp32", "bf16", "fp16"})(full);
  return type_called(full);
}

}  // namespace

void RankOptions::declare(OptionRows& rows) {
  rows.group("Ranks");
  rows.text("--reducer", reducer, "NAME",
            "How gradients are summed over the ranks: auto or one of --list",
            [](const std::string& name) { find_reducer(name); })
      .common();
  rows.optional_number("--nccl-max-ctas", nccl_max_ctas, Bounds::at_least(1, kMostCtas),
                       "Thread blocks (CTAs) that NCCL's sums may take from the backward pass "
                       "[NCCL's choice; 4 with --deterministic]");
  rows.optional_number("--bucket-mb", bucket_mb, Bounds::above_zero(kLargestBucket),
                       "MiB of gradients that are summed together [1; between hosts with "
                       "--reducer auto so many that bytes take ten times as long as latencies]");
  rows.add(
          "--wire", OptionRow::Type::word,
          [this](const std::string& name) { wire = parse_wire(name); },
          [this] { return name_of(wire); }, "TYPE",
          "Type of gradients in messages between hosts: fp32, bf16 or fp16. The rounding error "
          "is added to the next step's. With --reducer direct also between ranks of a host")
      .shapes_weights();
  rows.text("--progress", progress, "NAME",
            "Who moves the sums on during backward: auto, wait, poll or thread",
            [](const std::string& name) { find(policies(), name); });
  rows.number("--timeout", timeout, Bounds::above_zero(kLongestTime),
              "Seconds without progress after which the run ends with the reason");
}

}  // namespace lockstep
