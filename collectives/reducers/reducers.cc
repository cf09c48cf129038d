// The registry of reducers, and make_reducer().
#include "collectives/reducers/reducers.h"

#include "collectives/reducers/device_choice.h"
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

std::vector<float*> rows_of(Reducer& reducer) {
  const std::vector<float*>& rows = reducer.traits().rows;
  return rows.empty() ? std::vector<float*>{reducer.gradients()} : rows;
}

Roots roots_of(const ReducerSpec& spec) {
  return spec.roots.of_rank.empty() ? Roots::one_each(spec.comm.size()) : spec.roots;
}

std::string describe_ranks(const ReducerSpec& spec) {
  return fmt::format("{}{}{}", counted(spec.comm.size(), "rank"),
                     spec.why.empty() ? "" : "; chosen because ", spec.why);
}

}  // namespace lockstep
