#include "collectives/node/node_cores.h"

#include <algorithm>
#include <bit>
#include <map>

#include "src/base/machine.h"

namespace lockstep {

NodeCores share_out(const std::vector<RankCores>& ranks, std::size_t mine) {
  std::map<int, int> users;  // by core
  double quota = 0;          // of one container that all ranks share, or of the largest
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
  const RankCores mine{allowed_cores(), core_quota()};
  // The quota, the number of cores, and the cores.
  std::vector<std::uint64_t> words{std::bit_cast<std::uint64_t>(mine.quota), mine.cores.size()};
  words.insert(words.end(), mine.cores.begin(), mine.cores.end());
  // An all-gather takes equally many words of each rank. The second word says how many count.
  words.resize(node.max(ssize(words)));
  const auto all = node.all_gather(words);
  std::vector<RankCores> ranks;
  for (auto at = all.begin(); at != all.end(); at += ssize(words))
    ranks.push_back({{at + 2, at + 2 + at[1]}, std::bit_cast<double>(at[0])});
  return share_out(ranks, node.rank());
}

}  // namespace lockstep
