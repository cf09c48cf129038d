// Portable arithmetic computes every fp32 layer without oneDNN. The choice of a kernel, and every
// bit of its results, are the same for all instruction sets that one program contains, for each
// algorithm of --conv, and on one and two threads.

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "src/device/cpu/convolution.h"
#include "tests/support/affine.h"
#include "tests/support/instruction_sets.h"

namespace lockstep {
namespace {

ConvolutionSpec spec_of(const Shape& x, std::int64_t filters, std::int64_t kernel,
                        std::int64_t groups = 1, std::int64_t stride = 1) {
  return {.input = {.x = x},
          .filters = filters,
          .kernel = kernel,
          .stride = stride,
          .pad = kernel / 2,
          .groups = groups};
}

std::vector<ConvolutionSpec> all_specs() {
  std::vector<ConvolutionSpec> specs;
  for (const std::int64_t kernel : {1, 3, 5}) {
    for (const std::int64_t stride : {1, 2}) {
      if (kernel < stride) continue;
      // Depthwise layers with fewer channels than a register of 4, 8 or 16 has floats, and with
      // more.
      for (const std::int64_t channels : {1, 4, 7, 15, 16, 19})
        specs.push_back(spec_of({2, 7, 6, channels}, channels, kernel, channels, stride));
      specs.push_back(spec_of({2, 7, 6, 6}, 12, kernel, 6, stride));     // two filters a channel
      specs.push_back(spec_of({2, 7, 6, 32}, 16, kernel, 2, stride));    // groups
      specs.push_back(spec_of({2, 7, 6, 24}, 48, kernel, 4, stride));    // groups
      specs.push_back(spec_of({2, 9, 10, 3}, 16, kernel, 1, stride));    // few channels
      specs.push_back(spec_of({2, 9, 10, 7}, 24, kernel, 1, stride));    // few channels
      specs.push_back(spec_of({4, 12, 12, 16}, 16, kernel, 1, stride));  // Winograd from 8 lanes
      specs.push_back(spec_of({4, 12, 12, 32}, 33, kernel, 1, stride));
    }
  }
  ConvolutionSpec dilated = spec_of({2, 9, 9, 16}, 16, 3, 16), line = spec_of({2, 1, 30, 3}, 16, 5);
  dilated.dilation = 2;
  line.one_dimensional = true;
  specs.push_back(dilated);
  specs.push_back(line);
  specs.push_back(spec_of({2, 15, 15, 20}, 20, 7, 20));
  specs.push_back(spec_of({2, 15, 15, 20}, 20, 7, 20, 3));
  specs.push_back(spec_of({2, 15, 15, 3}, 16, 7, 1, 2));
  return specs;
}

class PortableChoices : public testing::TestWithParam<std::string_view> {};

/// The kernels of the sets that this processor has, without repetition.
std::vector<std::pair<std::string_view, const Kernels*>> all_kernels() {
  std::vector<std::pair<std::string_view, const Kernels*>> result;
  for (const std::string_view set : kSets) {
    if (!processor_has(set)) continue;
    const Kernels& kernels = set_called(set).kernels();
    const auto same = [&](const auto& other) { return other.second == &kernels; };
    if (std::none_of(result.begin(), result.end(), same)) result.emplace_back(set, &kernels);
  }
  return result;
}

TEST_P(PortableChoices, AreTheSameInAllInstructionSets) {
  const ConvolutionEntry& entry = find(convolutions(), GetParam());
  const auto one_thread = make_cpu_device(1), two_threads = make_cpu_device(2);
  const auto sets = all_kernels();
  for (const ConvolutionSpec& spec : all_specs()) {
    SCOPED_TRACE(fmt::format("{} to {}, kernel {}, stride {}, groups {}", spec.input.x.text(),
                             spec.output().text(), spec.kernel, spec.stride, spec.groups));
    const AffineCase tensors{.x = spec.input.x, .w = spec.weights(), .y = spec.output()};
    std::string name;
    AffineOutcome first;
    for (const auto& [set, kernels] : sets) {
      const auto plan = entry.plan({*kernels, true}, spec);
      if (name.empty()) {
        name = plan->implementation();
        first = run_affine(*one_thread, *plan, tensors);
      }
      EXPECT_EQ(plan->implementation(), name) << set;
      EXPECT_EQ(name.find("oneDNN"), std::string::npos) << name;
      const bool last = kernels == sets.back().second;
      const AffineOutcome own = run_affine(last ? *two_threads : *one_thread, *plan, tensors);
      EXPECT_EQ(own.y, first.y) << set;
      EXPECT_EQ(own.dx, first.dx) << set;
      EXPECT_EQ(own.dw, first.dw) << set;
      EXPECT_EQ(own.db, first.db) << set;
    }
    if (HasFailure()) return;
  }
}

std::vector<std::string_view> all_entries() {
  std::vector<std::string_view> names;
  for (const ConvolutionEntry& entry : convolutions()) names.push_back(entry.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Entries, PortableChoices, testing::ValuesIn(all_entries()),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace lockstep
