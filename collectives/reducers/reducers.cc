// The registry of reducers, and make_reducer().
#include "collectives/reducers/reducers.h"

#include <algorithm>
#include <string>
#include <vector>

#include "collectives/reducers/nccl.h"
#include "src/base/machine.h"
#include "src/base/plural.h"
#include "src/base/table.h"

namespace lockstep {

// Each reducer has its own file. A new one adds its name here and a row below.
using MakeReducer = std::unique_ptr<Reducer>(const ReducerSpec&);
MakeReducer make_auto_reducer, make_shared_reducer, make_hierarchical_reducer, make_direct_reducer,
    make_mpi_reducer;

namespace {

std::vector<ReducerEntry> make_registry() {
  std::vector<ReducerEntry> registry = {
      {"auto",
       "nccl on GPUs that no ranks share; else shared on one host, and between hosts hierarchical "
       "or the fastest of three; canonical order on CPU cores",
       make_auto_reducer, /*on_device=*/false, /*rounds=*/true, /*any_shares=*/true},
      {"shared", "in memory that all ranks of one host map; canonical order", make_shared_reducer,
       /*on_device=*/false, /*rounds=*/false, /*any_shares=*/true},
      {"hierarchical",
       "shared within each host, an algorithm or direct between hosts; canonical order in fp32",
       make_hierarchical_reducer, /*on_device=*/false, /*rounds=*/true, /*any_shares=*/true},
      {"direct",
       "each rank adds one part of a bucket for all, in messages of --wire's type; canonical "
       "order in fp32",
       make_direct_reducer, /*on_device=*/false, /*rounds=*/true, /*any_shares=*/true},
      {"mpi", "MPI_Iallreduce of the MPI library; order not known", make_mpi_reducer},
  };
#ifdef LOCKSTEP_CUDA
  registry.push_back(
      {"nccl", "NVIDIA's NCCL between GPUs of any hosts; order not known",
       [](const ReducerSpec& spec) { return make_nccl_reducer(spec, nccl_library()); },
       /*on_device=*/true});
#endif
  for (const AlgorithmEntry& algorithm : algorithms()) {
    registry.push_back({algorithm.name, algorithm.about, [&algorithm](const ReducerSpec& spec) {
                          return make_scheduled_reducer(algorithm, spec);
                        }});
  }
  return registry;
}

RankGpu gpu_of(Device& device) {
  RankGpu gpu{.host = host_name(), .uuid = device.traits().uuid, .pci = device.traits().pci};
#ifdef LOCKSTEP_CUDA
  if (!gpu.uuid.empty()) gpu.nccl = nccl_library().version();
#endif
  return gpu;
}

/// For gradients in memory that the host may not touch.
std::unique_ptr<Reducer> make_on_device(const ReducerEntry& entry, ReducerSpec spec) {
  const bool chooses = entry.name == "auto";
  if (chooses && spec.comm.size() == 1) return make_lone_reducer(spec);
  if (entry.on_device || chooses) {
    RankGpu own;
    agree(spec.comm, [&] { own = gpu_of(spec.device); });
    const std::vector<RankGpu> gpus = gather_gpus(spec.comm, own);
    const std::string why = nccl_refusal(gpus, spec.canonical && !entry.on_device);
    agree(spec.comm, [&] {
      if (!entry.on_device || why.empty()) return;
      fail_usage("--reducer {} cannot be used: {}. Start one rank per GPU, or pass --reducer auto.",
                 entry.name, why);
    });
    if (entry.on_device) return entry.make(spec);
    spec.why = why;
    if (why.empty() && spec.wire == Type::f32) {
      spec.why = "each rank has its own GPU";
      return find_reducer("nccl").make(spec);
    }
  }
  return make_staged_reducer(spec, entry.make(spec));
}

// The checks of the arguments. A wrong one would cause wrong sums, or writes outside of shared
// memory.

void require_any_shares(const ReducerEntry& entry, const ReducerSpec& spec) {
  if (!entry.any_shares) {
    fail_usage(
        "--shares auto does not work with the reducer {}. Pass --reducer auto, shared, direct or "
        "hierarchical.",
        entry.name);
  }
  if (spec.wire != Type::f32) {
    fail_usage("--shares auto does not work with --wire {}. Pass --wire fp32.", name_of(spec.wire));
  }
  if (!spec.device.traits().memory_is_host)
    fail_usage("--shares auto needs --device cpu. Pass it, or --shares equal.");
}

/// In elements, so that the bytes of all ranks of a host do not overflow.
constexpr std::int64_t kMostElements = std::int64_t{1} << 48;

/// Throws the usage error for a count or buckets that cannot be summed. Local.
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

/// Throws the same error on all ranks if arguments that must agree differ. Collective.
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

}  // namespace

void Reducer::share(const Roots&) { expect(false, "this reducer cannot change its shares"); }

std::span<const ReducerEntry> reducers() {
  static const std::vector<ReducerEntry> registry = make_registry();
  return registry;
}

const ReducerEntry& find_reducer(std::string_view name) { return find(reducers(), name); }

std::unique_ptr<Reducer> make_reducer(std::string_view name, const ReducerSpec& spec) {
  const ReducerEntry* entry = nullptr;
  agree(spec.comm, [&] {
    entry = &find_reducer(name);
    require_possible(spec);
    if (spec.shares_change) require_any_shares(*entry, spec);
    if (spec.wire != Type::f32 && !entry->rounds) {
      fail_usage(
          "--wire {} does not work with the reducer {}. Pass --reducer auto, hierarchical or "
          "direct.",
          name_of(spec.wire), name);
    }
  });
  require_same(name, spec);
  if (!spec.device.traits().memory_is_host) return make_on_device(*entry, spec);
  agree(spec.comm, [&] {
    if (entry->on_device)
      fail_usage("--reducer {} needs GPUs. Pass --device cuda or --reducer auto.", name);
  });
  return entry->make(spec);
}

Roots roots_of(const ReducerSpec& spec) {
  return spec.roots.of_rank.empty() ? Roots::one_each(spec.comm.size()) : spec.roots;
}

std::string describe_ranks(const ReducerSpec& spec) {
  return fmt::format("{}{}{}", counted(spec.comm.size(), "rank"),
                     spec.why.empty() ? "" : "; chosen because ", spec.why);
}

}  // namespace lockstep
