#include "apps/step/placement.h"

#include <algorithm>
#include <map>

#include "collectives/node/node_cores.h"
#include "src/base/machine.h"
#include "src/base/plural.h"
#include "src/base/table.h"
#include "src/base/text.h"

namespace lockstep {

Placement place(const Comm& comm, int asked) {
  const Comm node = comm.node();
  const NodeCores cores = node_cores(node);

  Placement placement;
  // The share is a sum of fractions such as 1/3. Rounding may leave it just below a whole number.
  placement.threads = asked > 0 ? asked : std::max(1, static_cast<int>(cores.share + 1e-6));
  // One rank of each host counts.
  placement.hosts = static_cast<int>(comm.sum(node.rank() == 0));
  const std::int64_t node_threads = node.sum(placement.threads);
  const bool too_many = node_threads > cores.all;
  // mpirun may bind a rank to one core. More threads would then take turns on it.
  const bool bound_tight = asked > static_cast<int>(allowed_cores().size());
  if (comm.max(bound_tight) > 0) {
    placement.warning = fmt::format(
        "--threads {} but ranks are bound to fewer cores. Start mpirun with --bind-to none or "
        "--map-by slot:PE={}.",
        asked, asked);
  } else if (comm.max(too_many) > 0) {
    placement.warning =
        "oversubscription: ranks of a node have more threads than cores, so timings mean little. "
        "Use fewer --threads or ranks.";
  }
  return placement;
}

std::string devices_text(const std::vector<RankDevice>& ranks) {
  constexpr std::size_t kShown = 8, kDigits = 12;  // of a UUID: its kind and the first group
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankDevice& own = ranks[rank];
    if (own.uuid.empty()) return {};
    if (rank < kShown) {
      texts.push_back(fmt::format("rank {}: {} ({})", rank, own.name, own.uuid.substr(0, kDigits)));
    }
  }
  if (ranks.size() > kShown) texts.push_back(fmt::format("and {} more", ranks.size() - kShown));
  return joined(texts, ", ");
}

std::string sharing_note(const std::vector<RankDevice>& ranks) {
  std::map<std::string, std::vector<std::size_t>> by_device;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank].uuid.empty()) by_device[ranks[rank].uuid].push_back(rank);
  }
  std::size_t sharers = 0;
  std::vector<std::string> groups;
  for (const auto& [uuid, owners] : by_device) {
    if (owners.size() == 1) continue;
    sharers += owners.size();
    groups.push_back(
        fmt::format("ranks {} on {}", fmt::join(owners, ", "), ranks[owners.front()].name));
  }
  if (groups.empty()) return {};
  return fmt::format("{} ranks share {} ({}); one rank per GPU is faster", sharers,
                     counted(groups.size(), "GPU"), fmt::join(groups, "; "));
}

namespace {

/// Collective. The text of the lowest rank that has one, with that rank's name unless all have one.
std::string first_of(const Comm& comm, const std::string& text) {
  const std::int64_t rank = comm.min(text.empty() ? comm.size() : comm.rank());
  if (rank == comm.size()) return {};
  const bool everywhere = comm.min(!text.empty()) > 0;
  const std::string where =
      everywhere ? "" : fmt::format(" on rank {} ({})", comm.rank(), host_name());
  return comm.broadcast(text + where, static_cast<int>(rank));
}

/// Collective. The devices of all ranks on rank 0; empty on other ranks.
std::vector<RankDevice> gather_devices(const Comm& comm, const Device& device) {
  const std::string& about = device.traits().description;
  std::vector<RankDevice> ranks;
  for (const std::string& text : comm.gather(fmt::format(
           "{} {}\n{}\n", host_name(), about.substr(0, about.find(' ')), device.traits().uuid))) {
    const std::vector<std::string> lines = lines_of(text);
    ranks.push_back({lines[0], lines[1]});
  }
  return ranks;
}

/// Collective. The last of devices() that every rank has. `notes`: the better kinds, which are
/// absent. Reasons in brackets are left to --device: a machine without a GPU is no fault.
const DeviceEntry& best_device(const Comm& comm, std::vector<std::string>& notes) {
  const DeviceEntry* best = &devices().front();
  std::vector<std::string> absent;
  for (const DeviceEntry& better : devices().subspan(1)) {
    // All ranks walk all kinds, even if one lacks a device, because first_of() is collective.
    const std::string reason = better.absent();
    if (const std::string why = first_of(comm, reason.substr(0, reason.find(" ("))); why.empty()) {
      best = &better;
      absent.clear();
    } else {
      absent.push_back(why);
    }
  }
  for (const std::string& why : absent)
    notes.push_back(fmt::format("{}, using {}", why, best->name));
  return *best;
}

}  // namespace

std::unique_ptr<Device> make_device(const Comm& comm, std::string_view name, DeviceOptions options,
                                    Placement& placement) {
  const DeviceEntry& entry =
      name == "auto" ? best_device(comm, placement.notes) : find_device(name);
  options.threads = placement.threads;
  options.rank_on_host = comm.node().rank();
  std::unique_ptr<Device> device;
  agree(comm, [&] {
    const std::string absent = entry.absent();
    require(absent.empty(), "--device {}: {} on {}. Use another --device.", entry.name, absent,
            host_name());
    device = entry.make(options);
  });
  const std::vector<RankDevice> ranks = gather_devices(comm, *device);
  placement.devices = devices_text(ranks);
  for (const std::string& note : {sharing_note(ranks), first_of(comm, device->traits().advice)})
    if (!note.empty()) placement.notes.push_back(note);
  return device;
}

std::vector<std::string> placement_lines(const Comm& comm, const Placement& placement) {
  return comm.gather(fmt::format("rank {}: host {}, cores {}, {}", comm.rank(), host_name(),
                                 core_list(allowed_cores()), counted(placement.threads, "thread")));
}

}  // namespace lockstep
