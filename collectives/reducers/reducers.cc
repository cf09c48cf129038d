#include "collectives/reducers/reducers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "collectives/comm/communicator.h"
#include "collectives/reducers/device_choice.h"
#include "collectives/reducers/measured_link.h"
#include "src/base/clock.h"
#include "src/base/machine.h"
#include "src/base/plural.h"
#include "src/base/table.h"

#ifdef LOCKSTEP_CUDA
#include "collectives/reducers/cuda/reducers.h"
#endif

namespace lockstep {
namespace {

bool on_one_host(const Comm& comm) { return comm.min(comm.node().size()) == comm.size(); }

std::unique_ptr<Reducer> make_auto_reducer(const ReducerSpec& given) {
  ReducerSpec spec = given;
  if (!spec.why.empty()) spec.why += "; ";
  if (!on_one_host(spec.comm)) return make_network_reducer(spec, spec.comm.node());
  spec.why += "all ranks are on one host";
  return make_shared_reducer(spec);
}

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

/// What auto may be between hosts.
struct Candidate {
  std::string_view name;
  std::function<std::unique_ptr<Reducer>(const ReducerSpec&)> make;
  double seconds = 0;  ///< of a trial
};

/// Those in canonical order that should be the cheapest for the buckets of `spec`, the cheapest
/// first, and owners, whose messages all go at once.
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
  found.push_back({"owners", make_owners_reducer});
  return found;
}

/// Of the slowest rank, for these buckets; the median of three.
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

std::vector<ReducerEntry> make_menu() {
  std::vector<ReducerEntry> menu = {
      {"auto",
       "on GPUs nccl, where they are shared cuda_ipc; else shared on one host, and on several "
       "hierarchical or what is the fastest when tried, in canonical order",
       make_auto_reducer, /*on_device=*/false, /*rounds=*/true},
      {"shared", "in memory that all ranks of one host see; canonical order", make_shared_reducer},
      {"hierarchical",
       "shared within each host, an algorithm between hosts; canonical order where all hosts have "
       "as many ranks, a power of two",
       [](const ReducerSpec& spec) { return make_hierarchical_reducer(spec, spec.comm.node()); },
       /*on_device=*/false, /*rounds=*/true},
      {"owners",
       "every rank sums its part of a bucket for all, by messages of --wire's type; canonical "
       "order "
       "in f32",
       make_owners_reducer, /*on_device=*/false, /*rounds=*/true},
      {"mpi", "MPI_Iallreduce of the MPI library; order unknown", make_mpi_reducer},
  };
#ifdef LOCKSTEP_CUDA
  menu.push_back({"nccl", "NVIDIA's NCCL between GPUs of any hosts; order unknown",
                  [](const ReducerSpec& spec) { return make_nccl_reducer(spec, nccl_library()); },
                  /*on_device=*/true});
  menu.push_back({"cuda_ipc",
                  "in each other's GPU memory, also of one GPU for several ranks; canonical order",
                  [](const ReducerSpec& spec) { return make_peer_reducer(spec, make_cuda_peers); },
                  /*on_device=*/true});
#endif
  for (const AlgorithmEntry& algorithm : algorithms()) {
    menu.push_back({algorithm.name, algorithm.about, [&algorithm](const ReducerSpec& spec) {
                      return make_scheduled_reducer(algorithm, spec);
                    }});
  }
  return menu;
}

DeviceRecord record_of(Device& device) {
  DeviceRecord record{host_name(), device.traits().uuid};
#ifdef LOCKSTEP_CUDA
  if (!record.uuid.empty()) {
    record.nccl = nccl_library().version();
    record.ipc = shares_memory(device);
  }
#endif
  return record;
}

/// For gradients in memory that the host may not touch.
std::unique_ptr<Reducer> make_on_device(const ReducerEntry& asked, ReducerSpec spec) {
  DeviceRecord own;
  agree(spec.comm, [&] { own = record_of(spec.device); });
  const std::vector<DeviceRecord> records = gather_records(spec.comm, own);
  const ReducerEntry* entry = &asked;
  if (asked.name == "auto") {
    DeviceChoice choice = choose(records, spec.canonical);
    spec.why = std::move(choice.why);
    entry = &find(reducers(), choice.reducer);
    if (entry->on_device && spec.wire != Type::f32) entry = &asked;  // the host's, staged
  } else if (asked.on_device) {
    agree(spec.comm, [&] {
      const std::string why = refusal(asked.name, records);
      if (!why.empty()) fail_usage("--reducer {}: {}", asked.name, why);
    });
  }
  if (entry->on_device) return entry->make(spec);
  return make_staged_reducer(spec, entry->make(spec));
}

}  // namespace

std::span<const ReducerEntry> reducers() {
  static const std::vector<ReducerEntry> menu = make_menu();
  return menu;
}

std::unique_ptr<Reducer> make_reducer(std::string_view name, const ReducerSpec& spec) {
  const ReducerEntry* entry = nullptr;
  agree(spec.comm, [&] {
    entry = &find(reducers(), name);
    require_possible(spec);
    if (spec.wire != Type::f32 && !entry->rounds) {
      fail_usage(
          "--wire {} is not for the reducer {}: choose --reducer auto, hierarchical or owners",
          name_of(spec.wire), name);
    }
  });
  require_same(name, spec);
  if (!spec.device.traits().memory_is_host) return make_on_device(*entry, spec);
  agree(spec.comm, [&] {
    if (entry->on_device)
      fail_usage("--reducer {} is for GPUs: give --device cuda, or choose --reducer auto", name);
  });
  return entry->make(spec);
}

std::unique_ptr<Reducer> make_network_reducer(const ReducerSpec& given, const Comm& node) {
  ReducerSpec spec = given;
  if (spec.wire != Type::f32) {
    spec.why += "it sends 16 bits between hosts";
    return spec.comm.max(node.size()) > 1 ? make_hierarchical_reducer(spec, node)
                                          : make_owners_reducer(spec);
  }
  if (!spec.link) spec.link = measure_link(spec.comm, node);
  const std::string link = describe(*spec.link);
  if (spec.comm.max(node.size()) > 1) {
    ReducerSpec within = spec;
    within.why += "hosts hold several ranks each, " + link + " between them";
    auto reducer = make_hierarchical_reducer(within, node);
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

std::string describe_ranks(const ReducerSpec& spec) {
  return fmt::format("{}{}{}", counted(spec.comm.size(), "rank"),
                     spec.why.empty() ? "" : "; chosen because ", spec.why);
}

}  // namespace lockstep
