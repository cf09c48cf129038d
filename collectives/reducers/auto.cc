// The reducer "auto" in memory of the host: shared on one host, and between hosts the fastest for
// the link, by cost and by measurement.
//
// All candidates add in canonical order. So a measurement, which differs from start to start,
// changes the speed but no bit.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string>

#include "collectives/comm/communicator.h"
#include "collectives/reducers/measured_link.h"
#include "collectives/reducers/reducers.h"
#include "src/base/clock.h"
#include "src/base/plural.h"

namespace lockstep {
namespace {

/// The buckets of the comparison: the first of a step, as many as the link transfers in 20 ms. Time
/// and memory therefore do not grow with the gradients.
std::vector<Range> compared_buckets(const ReducerSpec& spec) {
  constexpr double kLeast = 16 << 10, kMost = 4 << 20;  // elements
  const auto enough = static_cast<std::int64_t>(
      std::clamp(0.02 * spec.link->bandwidth / sizeof(float), kLeast, kMost));
  std::vector<Range> compared;
  std::int64_t end = 0;
  for (const Range& bucket : spec.buckets) {
    if (bucket.count == 0) continue;
    if (end == enough) break;
    compared.push_back({end, std::min(bucket.count, enough - end)});
    end = compared.back().end();
  }
  return compared;
}

/// A reducer that auto may select between hosts.
struct Candidate {
  std::string_view name;
  std::function<std::unique_ptr<Reducer>(const ReducerSpec&)> make;
  double seconds = 0;  ///< measured
};

/// The two algorithms in canonical order with the least cost() for the buckets of `spec`, the
/// cheapest first, and direct. Only direct adds several roots of a rank.
std::vector<Candidate> candidates(const ReducerSpec& spec) {
  std::vector<Candidate> found;
  if (spec.shares_change || !roots_of(spec).by_rank()) return {{"direct", make_direct_reducer}};
  auto algorithms = algorithms_by_cost(spec.comm.size(), spec.buckets, *spec.link);
  algorithms.resize(2);
  for (const AlgorithmEntry* entry : algorithms) {
    found.push_back({entry->name, [entry](const ReducerSpec& made) {
                       return make_scheduled_reducer(*entry, made);
                     }});
  }
  found.push_back({"direct", make_direct_reducer});
  return found;
}

/// Seconds of the slowest rank for these buckets, the median of three.
double measured_seconds(const Candidate& candidate, const ReducerSpec& given,
                        const std::vector<Range>& buckets) {
  ReducerSpec spec = given;
  // A communicator of its own, because the reducer that is made later uses the same tags. The
  // candidate is destroyed here, so that only one of them has memory at a time.
  spec.comm = given.comm.duplicate();
  spec.count = buckets.back().end();
  spec.buckets = buckets;
  const auto reducer = candidate.make(spec);
  std::array<double, 3> seconds{};
  for (double& each : seconds) {
    spec.comm.barrier();
    const Waiting waiting;
    const double begin = now_seconds();
    for (int i = 0; i < ssize(buckets); ++i) {
      reducer->start(i);
      if (spec.one_by_one) reducer->finish(i);
    }
    for (int i = 0; i < ssize(buckets); ++i) reducer->finish(i);
    each = now_seconds() - begin;
  }
  // All ranks must choose alike, or they would wait for messages of different algorithms. The
  // slowest rank decides, so that all ranks sort the same numbers.
  std::sort(seconds.begin(), seconds.end());
  return static_cast<double>(spec.comm.max(std::llround(seconds[1] * 1e9))) * 1e-9;
}

}  // namespace

std::unique_ptr<Reducer> make_network_reducer(const ReducerSpec& given, const Comm& node) {
  ReducerSpec spec = given;
  const bool several = spec.comm.max(node.size()) > 1;
  if (spec.wire != Type::f32) {
    spec.why += "messages between hosts have 16 bits";
    return several ? make_hierarchical_on(spec, node) : make_direct_reducer(spec);
  }
  if (!spec.link) spec.link = measure_link(spec.comm, node);
  const std::string link = describe(*spec.link);
  if (several) {
    spec.why += "hosts have several ranks each, with " + link + " between them";
    return make_hierarchical_on(spec, node);
  }
  std::vector<Candidate> measured = candidates(spec);
  if (measured.size() == 1) {
    spec.why += "it adds any shares of the ranks in canonical order";
    return measured.front().make(spec);
  }
  spec.why +=
      "it is the fastest in canonical order for these buckets at " + link + " between hosts";
  if (const std::vector<Range> buckets = compared_buckets(spec); !buckets.empty()) {
    for (Candidate& each : measured) each.seconds = measured_seconds(each, spec, buckets);
    std::ranges::stable_sort(measured, {}, &Candidate::seconds);
    spec.why +=
        fmt::format(", with {:.3g} ms for {} of {:.3g} MiB together ({}: {:.3g}, {}: {:.3g})",
                    measured[0].seconds * 1e3, counted(ssize(buckets), "bucket"),
                    static_cast<double>(buckets.back().end()) * 0x1p-18, measured[1].name,
                    measured[1].seconds * 1e3, measured[2].name, measured[2].seconds * 1e3);
  }
  return measured.front().make(spec);
}

std::unique_ptr<Reducer> make_auto_reducer(const ReducerSpec& given) {
  ReducerSpec spec = given;
  if (!spec.why.empty()) spec.why += "; ";
  const Comm node = spec.comm.node();
  if (spec.comm.min(node.size()) < spec.comm.size()) return make_network_reducer(spec, node);
  spec.why += "all ranks are on one host";
  return make_shared_reducer(spec);
}

}  // namespace lockstep
