#include "apps/step/step_options.h"

#include <cstdint>
#include <numeric>

#include "src/base/check.h"
#include "src/base/text.h"

namespace lockstep {

std::vector<int> parse_shares(const std::string& text) {
  std::vector<int> counts;
  if (text == "equal" || text == "auto") return counts;
  for (const std::string& part : split(text, ','))
    counts.push_back(parse_number<int>("--shares", part, Bounds::at_least(1, kMostShards)));
  return counts;
}

Shares RankOptions::shares(int shards, int ranks) const {
  if (shares_of_ranks.empty()) return choose_shares(shards, ranks);
  if (std::ssize(shares_of_ranks) != ranks) {
    fail_usage("--shares has {} numbers for {} ranks. Pass one for each rank.",
               shares_of_ranks.size(), ranks);
  }
  // In 64 bits, because the numbers of many ranks together may exceed an int.
  const auto sum = std::accumulate(shares_of_ranks.begin(), shares_of_ranks.end(), std::int64_t{0});
  if (sum != shards)
    fail_usage("--shares adds up to {} of {} shards. Pass shares of all shards.", sum, shards);
  return Shares(shares_of_ranks);
}

}  // namespace lockstep
