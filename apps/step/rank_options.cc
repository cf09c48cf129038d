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
  rows.text("--reducer", reducer, "NAME", "All-reduce of the gradients (see --list)",
            [](const std::string& name) { find_reducer(name); })
      .common();
  rows.optional_number("--nccl-max-ctas", nccl_max_ctas, Bounds::at_least(1, kMostCtas),
                       "Most thread blocks (CTAs) that NCCL's all-reduce uses "
                       "[NCCL's choice; 4 with --deterministic]");
  rows.optional_number("--bucket-mb", bucket_mb, Bounds::above_zero(kLargestBucket),
                       "Size of a gradient bucket in MiB [1; measured between hosts]\n"
                       "Between hosts, --reducer auto chooses the size at which bytes take ten "
                       "times as long as latencies.");
  rows.add(
          "--wire", OptionRow::Type::word,
          [this](const std::string& name) { wire = parse_wire(name); },
          [this] { return name_of(wire); }, "TYPE",
          "Type of gradients in messages between hosts: fp32, bf16 or fp16\n"
          "Error feedback adds the rounding error to the next step's gradients. With --reducer "
          "direct the type also applies between ranks of a host.")
      .shapes_weights();
  rows.text("--progress", progress, "NAME",
            "Progress of the all-reduce during backward (see --list)",
            [](const std::string& name) { find(policies(), name); });
  rows.number("--timeout", timeout, Bounds::above_zero(kLongestTime),
              "Seconds without progress before the run ends with an error");
}

}  // namespace lockstep
