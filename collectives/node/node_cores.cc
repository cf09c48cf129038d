#include "collectives/node/node_cores.h"

#include <algorithm>
#include <map>

#include "collectives/comm/communicator.h"
#include "src/base/machine.h"

namespace lockstep {

NodeCores share_out(const std::vector<RankCores>& ranks, std::size_t mine) {
  std::map<int, int> users;  // by core
  double quota = 0;          // containers of their own have one each; a common one counts once
  for (const RankCores& rank : ranks) {
    for (const int core : rank.cores) ++users[core];
    quota = std::max(quota, rank.quota);
  }
  NodeCores result{std::min(static_cast<double>(users.size()), quota), 0};
  for (const int core : ranks[mine].cores) result.share += 1.0 / users[core];
  const double fair = ranks[mine].quota / static_cast<double>(ranks.size());
  result.share = std::min(result.share, fair);
  return result;
}

NodeCores node_cores(const Comm& node) {
  RankCores mine{allowed_cores(), core_quota()};
  const int count = static_cast<int>(mine.cores.size());
  const auto size = static_cast<std::size_t>(node.size());
  std::vector<int> counts(size), offsets(size);
  std::vector<double> quotas(size);
  const Waiting waiting;
  check(MPI_Allgather(&count, 1, MPI_INT, counts.data(), 1, MPI_INT, raw(node)));
  check(MPI_Allgather(&mine.quota, 1, MPI_DOUBLE, quotas.data(), 1, MPI_DOUBLE, raw(node)));
  int total = 0;
  for (std::size_t i = 0; i < size; ++i) {
    offsets[i] = total;
    total += counts[i];
  }
  std::vector<int> all(total);
  check(MPI_Allgatherv(mine.cores.data(), count, MPI_INT, all.data(), counts.data(), offsets.data(),
                       MPI_INT, raw(node)));
  std::vector<RankCores> ranks;
  for (std::size_t i = 0; i < size; ++i) {
    const auto begin = all.begin() + offsets[i];
    ranks.push_back({{begin, begin + counts[i]}, quotas[i]});
  }
  return share_out(ranks, node.rank());
}

}  // namespace lockstep
