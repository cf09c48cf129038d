#include "apps/placement.h"

#include <algorithm>

#include "collectives/node_cores.h"
#include "src/machine.h"
#include "src/plural.h"
#include "src/table.h"

namespace lockstep {

Placement place(const Comm& comm, int asked) {
  const Comm node = comm.node();
  const NodeCores cores = node_cores(node);

  Placement placement;
  placement.threads = asked > 0 ? asked : std::max(1, static_cast<int>(cores.share + 1e-6));
  placement.hosts = static_cast<int>(comm.sum(node.rank() == 0));
  const std::int64_t node_threads = node.sum(placement.threads);
  const bool too_many = static_cast<double>(node_threads) > cores.all;
  const bool bound_tight = asked > static_cast<int>(allowed_cores().size());
  if (comm.max(bound_tight) > 0) {
    placement.warning = fmt::format(
        "--threads {} but ranks are bound to fewer cores: start mpirun with --bind-to none or "
        "--map-by slot:PE={}",
        asked, asked);
  } else if (comm.max(too_many) > 0) {
    placement.warning =
        "more threads than cores on a node: the ranks take turns, and figures of speed mean little";
  }
  return placement;
}

std::unique_ptr<Device> make_device(const Comm& comm, std::string_view name,
                                    DeviceOptions options) {
  const DeviceEntry* entry = &find(devices(), name);
  for (const DeviceEntry& better : devices()) {
    if (name == "auto" && comm.min(better.present()) > 0) entry = &better;
  }
  options.rank_on_host = comm.node().rank();
  std::unique_ptr<Device> device;
  agree(comm, [&] {
    require(entry->present(), "{} has no device {}: choose another --device", host_name(),
            entry->name);
    device = entry->make(options);
  });
  return device;
}

std::vector<std::string> placement_lines(const Comm& comm, const Placement& placement) {
  return comm.gather(fmt::format("rank {}: host {}, cores {}, {}", comm.rank(), host_name(),
                                 core_list(allowed_cores()), counted(placement.threads, "thread")));
}

}  // namespace lockstep
