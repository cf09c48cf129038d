#include "collectives/reducers/device_choice.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "collectives/reducers/nccl.h"
#include "collectives/reducers/peers.h"
#include "src/base/plural.h"

namespace lockstep {
namespace {

using Records = std::span<const RankGpu>;

constexpr char kBetween = '\t';

std::string to_text(const RankGpu& record) {
  return fmt::format("{}{}{}{}{}{}{}", record.host, kBetween, record.uuid, kBetween, record.nccl,
                     kBetween, record.ipc ? 1 : 0);
}

RankGpu from_text(std::string_view line) {
  std::string_view fields[4];
  for (std::string_view& field : fields) {
    field = line.substr(0, line.find(kBetween));
    line.remove_prefix(std::min(line.size(), field.size() + 1));
  }
  RankGpu record{std::string(fields[0]), std::string(fields[1]), 0, fields[3] == "1"};
  std::from_chars(fields[2].data(), fields[2].data() + fields[2].size(), record.nccl);
  return record;
}

/// The number of the first rank of which `holds` is true, or -1.
template <class Holds>
int first(Records records, Holds holds) {
  const auto found = std::find_if(records.begin(), records.end(), holds);
  return found == records.end() ? -1 : static_cast<int>(found - records.begin());
}

const RankGpu& at(Records records, int rank) { return records[rank]; }

template <class Field>
std::size_t different(Records records, Field field) {
  std::set<std::string> values;
  for (const RankGpu& record : records) values.insert(record.*field);
  return values.size();
}

std::string no_device(Records records) {
  const int rank = first(records, [](const RankGpu& record) { return record.uuid.empty(); });
  if (rank < 0) return "";
  return fmt::format("rank {} ({}) has no CUDA device", rank, at(records, rank).host);
}

std::string not_nccl(Records records) {
  const int without = first(records, [](const RankGpu& record) { return record.nccl == 0; });
  if (without >= 0)
    return fmt::format("rank {} ({}) has no NCCL", without, at(records, without).host);
  const std::string version = nccl_version_name(records.front().nccl);
  const int other =
      first(records, [&](const RankGpu& record) { return record.nccl != records.front().nccl; });
  if (other >= 0) {
    return fmt::format("rank 0 has NCCL {} and rank {} ({}) {}", version, other,
                       at(records, other).host, nccl_version_name(at(records, other).nccl));
  }
  const std::size_t devices = different(records, &RankGpu::uuid);
  if (devices == records.size()) return "";
  return fmt::format("{} share {}, and NCCL {} refuses shared GPUs",
                     counted(records.size(), "rank"), counted(devices, "GPU"), version);
}

std::string not_ipc(Records records) {
  const std::size_t hosts = different(records, &RankGpu::host);
  if (hosts > 1) return fmt::format("the ranks are on {} hosts", hosts);
  if (records.size() > kMostPeers)
    return fmt::format("cuda_ipc is for up to {} ranks, not for {}", kMostPeers, records.size());
  const int without = first(records, [](const RankGpu& record) { return !record.ipc; });
  if (without < 0) return "";
  return fmt::format("the GPU of rank {} ({}) shares no memory between processes", without,
                     at(records, without).host);
}

}  // namespace

std::vector<RankGpu> gather_gpus(const Comm& comm, const RankGpu& own) {
  std::string all;
  for (const std::string& line : comm.gather(to_text(own))) all += line + '\n';
  all = comm.broadcast(std::move(all));
  std::vector<RankGpu> records;
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = all.find('\n', begin);
    records.push_back(from_text(std::string_view(all).substr(begin, end - begin)));
    begin = end + 1;
  }
  return records;
}

std::string refusal(std::string_view name, Records records) {
  if (const std::string why = no_device(records); !why.empty()) return why + ": --device cuda";
  if (name == "nccl") {
    const std::string why = not_nccl(records);
    return why.empty() ? "" : why + ": start one rank per GPU with the same NCCL";
  }
  const std::string why = not_ipc(records);
  return why.empty() ? "" : why + ": choose nccl, or tree or mpi through the host";
}

DeviceChoice choose(Records records, bool canonical) {
  if (const std::string why = no_device(records); !why.empty()) return {"auto", why};
  const bool any_order = !canonical || records.size() == 1;
  const std::string nccl =
      any_order ? not_nccl(records)
                : "the canonical order was asked for (--shards), and NCCL has an order of its own";
  if (nccl.empty()) return {"nccl", "each rank has a GPU of its own"};
  const std::string ipc = not_ipc(records);
  if (ipc.empty()) return {"cuda_ipc", nccl};
  return {"auto", fmt::format("{}; {}", nccl, ipc)};
}

}  // namespace lockstep
