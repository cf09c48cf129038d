// The reducer "auto" in memory of the host: shared on one host; between hosts the one that the link
// suits, by cost and by trial.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <utility>

#include "collectives/comm/communicator.h"
#include "collectives/reducers/measured_link.h"
#include "collectives/reducers/reducers.h"
#include "src/base/clock.h"
#include "src/base/plural.h"

namespace lockstep {
namespace {

/// The buckets that candidates are compared by: the first of a step. What the link can move in 20
/// ms is enough to tell, and neither time nor memory grows with huge gradients.
std::vector<Range> buckets_of_trial(const ReducerSpec& spec) {
  constexpr double kLeast = 16 << 10, kMost = 4 << 20;  // elements
  const auto enough = static_cast<std::int64_t>(
      std::clamp(0.02 * spec.link->bandwidth / sizeof(float), kLeast, kMost));
  std::vector<Range> tried;
  std::int64_t end = 0;
  for (const Range& bucket : spec.buckets) {
    if (bucket.count == 0) continue;
    if (end == enough) break;
    tried.push_back({end, std::min(bucket.count, enough - end)});
    end = tried.back().end();
  }
  return tried;
}

/// A reducer that auto may take between hosts.
struct Candidate {
  std::string_view name;
  std::function<std::unique_ptr<Reducer>(const ReducerSpec&)> make;
  double seconds = 0;  ///< of a trial
};

/// Those in canonical order that should be the cheapest for the buckets of `spec`, the cheapest
/// first, and direct, whose messages all go at once.
std::vector<Candidate> candidates(const ReducerSpec& spec) {
  constexpr std::size_t kTried = 2;
  std::vector<Candidate> found;
  for (const AlgorithmEntry* entry :
       algorithms_by_cost(spec.comm.size(), spec.buckets, *spec.link)) {
    if (found.size() == kTried) break;
    found.push_back({entry->name, [entry](const ReducerSpec& made) {
                       return make_scheduled_reducer(*entry, made);
                     }});
  }
  found.push_back({"direct", make_direct_reducer});
  return found;
}

/// The time of the slowest rank for these buckets: the median of three.
double measured_seconds(const Candidate& candidate, const ReducerSpec& given,
                        const std::vector<Range>& buckets) {
  ReducerSpec spec = given;
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
    if (!spec.one_by_one) {
      for (int i = 0; i < ssize(buckets); ++i) reducer->finish(i);
    }
    each = now_seconds() - begin;
  }
  std::sort(seconds.begin(), seconds.end());
  return static_cast<double>(spec.comm.max(std::llround(seconds[1] * 1e9))) * 1e-9;
}

}  // namespace

std::unique_ptr<Reducer> make_network_reducer(const ReducerSpec& given, const Comm& node) {
  ReducerSpec spec = given;
  if (spec.wire != Type::f32) {
    spec.why += "it sends 16 bits between hosts";
    return spec.comm.max(node.size()) > 1 ? make_hierarchical_on(spec, node)
                                          : make_direct_reducer(spec);
  }
  if (!spec.link) spec.link = measure_link(spec.comm, node);
  const std::string link = describe(*spec.link);
  if (spec.comm.max(node.size()) > 1) {
    ReducerSpec within = spec;
    within.why += "hosts hold several ranks each, " + link + " between them";
    auto reducer = make_hierarchical_on(within, node);
    if (reducer->traits().canonical) return reducer;
  }
  spec.why += "of those in canonical order it is the fastest for these buckets at " + link +
              " between hosts";
  std::vector<Candidate> tried = candidates(spec);
  if (const std::vector<Range> buckets = buckets_of_trial(spec); !buckets.empty()) {
    for (Candidate& each : tried) each.seconds = measured_seconds(each, spec, buckets);
    std::stable_sort(tried.begin(), tried.end(),
                     [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; });
    spec.why += fmt::format(
        ", and it took {:.3g} ms for {} of {:.3g} MiB together where {} took {:.3g} and {} {:.3g}",
        tried[0].seconds * 1e3, counted(ssize(buckets), "bucket"),
        static_cast<double>(buckets.back().end()) * 0x1p-18, tried[1].name, tried[1].seconds * 1e3,
        tried[2].name, tried[2].seconds * 1e3);
  }
  return tried.front().make(spec);
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
