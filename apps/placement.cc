#include "apps/placement.h"

#include <algorithm>
#include <array>

#include "src/machine.h"

namespace lockstep {

Placement place(const Comm& comm, int asked) {
  constexpr std::size_t kMostCores = 1024;
  const std::vector<int> cores = allowed_cores();
  Comm node = comm.node();
  std::array<int, kMostCores> users{};
  for (const int core : cores) users[static_cast<std::size_t>(core)] = 1;
  check(MPI_Allreduce(MPI_IN_PLACE, users.data(), kMostCores, MPI_INT, MPI_SUM, node.raw()));
  double share = 0;
  for (const int core : cores) share += 1.0 / users[static_cast<std::size_t>(core)];

  Placement placement;
  placement.threads = asked > 0 ? asked : std::max(1, static_cast<int>(share + 1e-6));
  placement.hosts = static_cast<int>(comm.sum(node.rank() == 0));
  const auto node_cores = std::count_if(users.begin(), users.end(), [](int n) { return n > 0; });
  const std::int64_t node_threads = node.sum(placement.threads);
  const bool too_many = node_threads > node_cores;
  const bool bound_tight = asked > static_cast<int>(cores.size());
  node.free();
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

std::vector<std::string> placement_lines(const Comm& comm, const Placement& placement) {
  return comm.gather(fmt::format("rank {}: host {}, cores {}, {} thread{}", comm.rank(),
                                 host_name(), core_list(allowed_cores()), placement.threads,
                                 placement.threads == 1 ? "" : "s"));
}

}  // namespace lockstep
