// The checks of the arguments of make_reducer(). A wrong one would cause wrong sums, or writes
// outside of shared memory.
#include <algorithm>
#include <string>
#include <vector>

#include "collectives/reducers/reducers.h"

namespace lockstep {
namespace {

/// In elements, so that the bytes of all ranks of a host do not overflow.
constexpr std::int64_t kMostElements = std::int64_t{1} << 48;

}  // namespace

void require_possible(const ReducerSpec& spec) {
  if (spec.count < 0 || spec.count > kMostElements) {
    fail_usage("ReducerSpec::count is {}. Pass the number of gradients, from 0 to {}.", spec.count,
               kMostElements);
  }
  if (!spec.roots.of_rank.empty() && std::ssize(spec.roots.of_rank) != spec.comm.size()) {
    fail_usage("ReducerSpec::roots has {} ranks of {}. Pass the roots of each rank.",
               spec.roots.of_rank.size(), spec.comm.size());
  }
  const auto named = [&](std::size_t number) {
    const Range& bucket = spec.buckets[number];
    return fmt::format("bucket {} (begin {}, count {})", number, bucket.begin, bucket.count);
  };
  std::vector<std::size_t> filled;  // buckets with elements
  for (std::size_t i = 0; i < spec.buckets.size(); ++i) {
    const auto [begin, length] = spec.buckets[i];  // begin + length may overflow
    if (begin < 0 || length < 0 || begin > spec.count || length > spec.count - begin) {
      fail_usage("{} is not within the {} gradients. Pass buckets within ReducerSpec::count.",
                 named(i), spec.count);
    }
    if (length > 0) filled.push_back(i);
  }
  std::ranges::sort(filled, {}, [&](std::size_t number) { return spec.buckets[number].begin; });
  for (std::size_t i = 1; i < filled.size(); ++i) {
    if (spec.buckets[filled[i - 1]].end() <= spec.buckets[filled[i]].begin) continue;
    fail_usage("{} overlaps {}. Pass disjoint buckets.", named(filled[i - 1]), named(filled[i]));
  }
}

void require_same(std::string_view name, const ReducerSpec& spec) {
  std::string text = fmt::format("reducer = {}\nmemory = {}\ncount = {}\nnumber of buckets = {}\n",
                                 name, spec.device.traits().memory_is_host ? "host" : "device",
                                 spec.count, spec.buckets.size());
  for (std::size_t i = 0; i < spec.buckets.size(); ++i) {
    const Range& bucket = spec.buckets[i];
    text += fmt::format("bucket {} = begin {}, count {}\n", i, bucket.begin, bucket.count);
  }
  for (const Roots::Row& row : spec.roots.rows()) {
    text += fmt::format("root {} of rank {} = shards {} to {} of {}\n", row.number, row.rank,
                        row.shards.begin, row.shards.end() - 1, spec.roots.shards);
  }
  text += fmt::format(
      "wire = {}\nexact = {}\ndeterministic = {}\ncanonical = {}\none_by_one = {}\n"
      "shares_change = {}\n"
      "link = {}\nlargest_message = {}\n",
      name_of(spec.wire), spec.exact, spec.deterministic, spec.canonical, spec.one_by_one,
      spec.shares_change,
      spec.link ? fmt::format("{} s, {} B/s, {} B/s", spec.link->latency, spec.link->bandwidth,
                              spec.link->add_rate)
                : "unknown",
      spec.comm.largest_message());
  expect_same(spec.comm, "arguments of make_reducer()", text, kSameArguments);
}

}  // namespace lockstep
