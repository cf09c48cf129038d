// The registry of reducers, and make_reducer().
#include "collectives/reducers/reducers.h"

#include <utility>

#include "collectives/reducers/device_choice.h"
#include "collectives/reducers/nccl.h"
#include "collectives/reducers/peers.h"
#include "src/base/machine.h"
#include "src/base/plural.h"
#include "src/base/table.h"

namespace lockstep {

/// One file each. A new reducer is a name here and a row below.
using MakeReducer = std::unique_ptr<Reducer>(const ReducerSpec&);
MakeReducer make_auto_reducer, make_shared_reducer, make_hierarchical_reducer, make_direct_reducer,
    make_mpi_reducer;

namespace {

/// Sums in memory of a device.
constexpr bool kOnDevice = true;

std::vector<ReducerEntry> make_menu() {
  std::vector<ReducerEntry> menu = {
      {"auto",
       "on GPUs nccl, or cuda_ipc if ranks share them; else shared on one host, and on several "
       "hierarchical or what is the fastest when tried, in canonical order",
       make_auto_reducer, !kOnDevice, /*rounds=*/true},
      {"shared", "in memory that all ranks of one host see; canonical order", make_shared_reducer},
      {"hierarchical",
       "shared within each host, an algorithm between hosts; canonical order if all hosts have as "
       "many ranks, a power of two",
       make_hierarchical_reducer, !kOnDevice, /*rounds=*/true},
      {"direct",
       "every rank sums its part of a bucket for all, by messages of --wire's type; canonical "
       "order in f32",
       make_direct_reducer, !kOnDevice, /*rounds=*/true},
      {"mpi", "MPI_Iallreduce of the MPI library; order unknown", make_mpi_reducer},
  };
#ifdef LOCKSTEP_CUDA
  menu.push_back({"nccl", "NVIDIA's NCCL between GPUs of any hosts; order unknown",
                  [](const ReducerSpec& spec) { return make_nccl_reducer(spec, nccl_library()); },
                  kOnDevice});
  menu.push_back({"cuda_ipc",
                  "in each other's GPU memory, also of one GPU for several ranks; canonical order",
                  [](const ReducerSpec& spec) { return make_peer_reducer(spec, make_cuda_peers); },
                  kOnDevice});
#endif
  for (const AlgorithmEntry& algorithm : algorithms()) {
    menu.push_back({algorithm.name, algorithm.about, [&algorithm](const ReducerSpec& spec) {
                      return make_scheduled_reducer(algorithm, spec);
                    }});
  }
  return menu;
}

RankGpu gpu_of(Device& device) {
  RankGpu gpu{host_name(), device.traits().uuid};
#ifdef LOCKSTEP_CUDA
  if (!gpu.uuid.empty()) {
    gpu.nccl = nccl_library().version();
    gpu.ipc = shares_memory(device);
  }
#endif
  return gpu;
}

/// For gradients in memory that the host may not touch.
std::unique_ptr<Reducer> make_on_device(const ReducerEntry& asked, ReducerSpec spec) {
  RankGpu own;
  agree(spec.comm, [&] { own = gpu_of(spec.device); });
  const std::vector<RankGpu> gpus = gather_gpus(spec.comm, own);
  const ReducerEntry* entry = &asked;
  if (asked.name == "auto") {
    DeviceChoice choice = choose(gpus, spec.canonical);
    spec.why = std::move(choice.why);
    entry = &find(reducers(), choice.reducer);
    if (entry->on_device && spec.wire != Type::f32) entry = &asked;  // the host's, staged
  } else if (asked.on_device) {
    agree(spec.comm, [&] {
      const std::string why = refusal(asked.name, gpus);
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

const ReducerEntry& find_reducer(std::string_view name) {
  if (name == "owners") fail_usage("The reducer owners is now called direct. Pass that name.");
  return find(reducers(), name);
}

std::unique_ptr<Reducer> make_reducer(std::string_view name, const ReducerSpec& spec) {
  const ReducerEntry* entry = nullptr;
  agree(spec.comm, [&] {
    entry = &find_reducer(name);
    require_possible(spec);
    if (spec.wire != Type::f32 && !entry->rounds) {
      fail_usage(
          "--wire {} is not for the reducer {}: choose --reducer auto, hierarchical or direct",
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

std::string describe_ranks(const ReducerSpec& spec) {
  return fmt::format("{}{}{}", counted(spec.comm.size(), "rank"),
                     spec.why.empty() ? "" : "; chosen because ", spec.why);
}

}  // namespace lockstep
