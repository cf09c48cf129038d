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

struct Numbered {
  std::size_t number;
  Range range;
};

void require_within(const Numbered& bucket, std::int64_t count) {
  const auto [begin, length] = bucket.range;  // begin + length may overflow
  if (begin >= 0 && length >= 0 && begin <= count && length <= count - begin) return;
  fail_usage(
      "bucket {} (begin {}, count {}) is not within the {} gradients. Pass buckets within "
      "ReducerSpec::count.",
      bucket.number, begin, length, count);
}

void require_disjoint(std::vector<Numbered> buckets) {
  std::erase_if(buckets, [](const Numbered& bucket) { return bucket.range.count == 0; });
  std::sort(buckets.begin(), buckets.end(),
            [](const Numbered& a, const Numbered& b) { return a.range.begin < b.range.begin; });
  for (std::size_t i = 1; i < buckets.size(); ++i) {
    const Numbered &left = buckets[i - 1], &right = buckets[i];
    if (left.range.end() <= right.range.begin) continue;
    fail_usage(
        "bucket {} (begin {}, count {}) overlaps bucket {} (begin {}, count {}). Pass disjoint "
        "buckets.",
        left.number, left.range.begin, left.range.count, right.number, right.range.begin,
        right.range.count);
  }
}

}  // namespace

void require_possible(const ReducerSpec& spec) {
  if (spec.count < 0 || spec.count > kMostElements) {
    fail_usage("ReducerSpec::count is {}. Pass the number of gradients, from 0 to {}.", spec.count,
               kMostElements);
  }
  std::vector<Numbered> buckets;
  for (const Range& range : spec.buckets) {
    buckets.push_back({buckets.size(), range});
    require_within(buckets.back(), spec.count);
  }
  require_disjoint(std::move(buckets));
}

void require_same(std::string_view name, const ReducerSpec& spec) {
  std::string text = fmt::format("reducer = {}\nmemory = {}\ncount = {}\nnumber of buckets = {}\n",
                                 name, spec.device.traits().memory_is_host ? "host" : "device",
                                 spec.count, spec.buckets.size());
  for (std::size_t i = 0; i < spec.buckets.size(); ++i) {
    const Range& bucket = spec.buckets[i];
    text += fmt::format("bucket {} = begin {}, count {}\n", i, bucket.begin, bucket.count);
  }
  text += fmt::format(
      "wire = {}\nexact = {}\noverflows = {}\ndeterministic = {}\ncanonical = {}\none_by_one = {}\n"
      "link = {}\nlargest_message = {}\n",
      name_of(spec.wire), spec.exact, spec.overflows, spec.deterministic, spec.canonical,
      spec.one_by_one,
      spec.link ? fmt::format("{} s, {} B/s, {} B/s", spec.link->latency, spec.link->bandwidth,
                              spec.link->add_rate)
                : "unknown",
      spec.comm.largest_message());
  expect_same(spec.comm, "arguments of make_reducer()", text, kSameArguments);
}

}  // namespace lockstep
