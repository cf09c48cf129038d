#include "collectives/reducers/device_choice.h"

#include <algorithm>
#include <set>

#include "collectives/reducers/nccl.h"
#include "src/base/plural.h"
#include "src/base/text.h"

namespace lockstep {
namespace {

/// The number of the first rank for which `holds` is true, or -1.
template <class Holds>
int first(std::span<const RankGpu> gpus, Holds holds) {
  const auto found = std::find_if(gpus.begin(), gpus.end(), holds);
  return found == gpus.end() ? -1 : static_cast<int>(found - gpus.begin());
}

}  // namespace

std::vector<RankGpu> gather_gpus(const Comm& comm, const RankGpu& own) {
  std::string all;
  for (const std::string& text :
       comm.gather(fmt::format("{}\n{}\n{}\n{}\n", own.host, own.uuid, own.nccl, own.pci)))
    all += text;
  const std::vector<std::string> lines = lines_of(comm.broadcast(std::move(all)));
  std::vector<RankGpu> gpus;
  for (std::size_t i = 0; i < lines.size(); i += 4)
    gpus.push_back({lines[i], lines[i + 1], std::stoi(lines[i + 2]), lines[i + 3]});
  return gpus;
}

std::string nccl_refusal(std::span<const RankGpu> gpus, bool canonical) {
  const int missing = first(gpus, [](const RankGpu& gpu) { return gpu.uuid.empty(); });
  if (missing >= 0)
    return fmt::format("rank {} ({}) has no CUDA device", missing, gpus[missing].host);
  const int without = first(gpus, [](const RankGpu& gpu) { return gpu.nccl == 0; });
  if (without >= 0) return fmt::format("rank {} ({}) has no NCCL", without, gpus[without].host);
  const std::string version = nccl_version_name(gpus.front().nccl);
  const int other = first(gpus, [&](const RankGpu& gpu) { return gpu.nccl != gpus.front().nccl; });
  if (other >= 0) {
    return fmt::format("rank 0 has NCCL {} and rank {} ({}) has {}", version, other,
                       gpus[other].host, nccl_version_name(gpus[other].nccl));
  }
  std::set<std::string> devices, addresses;
  for (const RankGpu& gpu : gpus) {
    devices.insert(gpu.uuid);
    addresses.insert(gpu.host + " " + (gpu.pci.empty() ? gpu.uuid : gpu.pci));
  }
  if (addresses.size() < gpus.size()) {
    const bool slices = devices.size() == gpus.size();
    return fmt::format("{} share {}, and NCCL {} refuses {}", counted(gpus.size(), "rank"),
                       counted(addresses.size(), "GPU"), version,
                       slices ? "slices (MIG) of one GPU" : "shared GPUs");
  }
  if (!canonical || gpus.size() == 1) return "";
  return "--shards asks for the canonical order, and NCCL has its own order";
}

}  // namespace lockstep
