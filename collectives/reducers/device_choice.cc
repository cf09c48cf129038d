#include "collectives/reducers/device_choice.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "collectives/reducers/nccl.h"
#include "collectives/reducers/peers.h"
#include "src/base/plural.h"

namespace lockstep {
namespace {

using Gpus = std::span<const RankGpu>;

/// The number of the first rank of which `holds` is true, or -1.
template <class Holds>
int first(Gpus gpus, Holds holds) {
  const auto found = std::find_if(gpus.begin(), gpus.end(), holds);
  return found == gpus.end() ? -1 : static_cast<int>(found - gpus.begin());
}

template <class Field>
std::size_t different(Gpus gpus, Field field) {
  std::set<std::string> values;
  for (const RankGpu& gpu : gpus) values.insert(gpu.*field);
  return values.size();
}

std::string no_device(Gpus gpus) {
  const int rank = first(gpus, [](const RankGpu& gpu) { return gpu.uuid.empty(); });
  if (rank < 0) return "";
  return fmt::format("rank {} ({}) has no CUDA device", rank, gpus[rank].host);
}

std::string not_nccl(Gpus gpus) {
  const int without = first(gpus, [](const RankGpu& gpu) { return gpu.nccl == 0; });
  if (without >= 0) return fmt::format("rank {} ({}) has no NCCL", without, gpus[without].host);
  const std::string version = nccl_version_name(gpus.front().nccl);
  const int other = first(gpus, [&](const RankGpu& gpu) { return gpu.nccl != gpus.front().nccl; });
  if (other >= 0) {
    return fmt::format("rank 0 has NCCL {} and rank {} ({}) {}", version, other, gpus[other].host,
                       nccl_version_name(gpus[other].nccl));
  }
  const std::size_t devices = different(gpus, &RankGpu::uuid);
  if (devices == gpus.size()) return "";
  return fmt::format("{} share {}, and NCCL {} refuses shared GPUs", counted(gpus.size(), "rank"),
                     counted(devices, "GPU"), version);
}

std::string not_ipc(Gpus gpus) {
  const std::size_t hosts = different(gpus, &RankGpu::host);
  if (hosts > 1) return fmt::format("the ranks are on {} hosts", hosts);
  if (gpus.size() > kMostPeers)
    return fmt::format("cuda_ipc is for up to {} ranks, not for {}", kMostPeers, gpus.size());
  const int without = first(gpus, [](const RankGpu& gpu) { return !gpu.ipc; });
  if (without < 0) return "";
  return fmt::format("the GPU of rank {} ({}) shares no memory between processes", without,
                     gpus[without].host);
}

}  // namespace

std::vector<RankGpu> gather_gpus(const Comm& comm, const RankGpu& own) {
  std::string all;
  for (const std::string& line :
       comm.gather(fmt::format("{}\t{}\t{} {:d}\n", own.host, own.uuid, own.nccl, own.ipc)))
    all += line;
  std::istringstream lines(comm.broadcast(std::move(all)));
  std::vector<RankGpu> gpus;
  for (RankGpu gpu; std::getline(lines, gpu.host, '\t') && std::getline(lines, gpu.uuid, '\t');) {
    lines >> gpu.nccl >> gpu.ipc >> std::ws;
    gpus.push_back(gpu);
  }
  return gpus;
}

std::string refusal(std::string_view name, Gpus gpus) {
  if (const std::string why = no_device(gpus); !why.empty()) return why + ": --device cuda";
  if (name == "nccl") {
    const std::string why = not_nccl(gpus);
    return why.empty() ? "" : why + ": start one rank per GPU with the same NCCL";
  }
  const std::string why = not_ipc(gpus);
  return why.empty() ? "" : why + ": choose nccl, or tree or mpi through the host";
}

DeviceChoice choose(Gpus gpus, bool canonical) {
  if (const std::string why = no_device(gpus); !why.empty()) return {"auto", why};
  const bool any_order = !canonical || gpus.size() == 1;
  const std::string nccl =
      any_order ? not_nccl(gpus)
                : "the canonical order was asked for (--shards), and NCCL has an order of its own";
  if (nccl.empty()) return {"nccl", "each rank has a GPU of its own"};
  const std::string ipc = not_ipc(gpus);
  if (ipc.empty()) return {"cuda_ipc", nccl};
  return {"auto", fmt::format("{}; {}", nccl, ipc)};
}

}  // namespace lockstep
