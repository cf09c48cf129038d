#include "collectives/schedule.h"

#include <algorithm>
#include <numeric>

#include "src/base/round_up.h"

namespace lockstep {
namespace {

struct Load {
  std::int64_t sent = 0, received = 0, added = 0, messages = 0;
};

Load load_of(const Round& round, int rank) {
  Load load;
  for (const Action& action : round) {
    if (action.verb == Verb::add) load.added += action.range.count;
    if (action.peer == rank) continue;
    ++load.messages;
    (action.verb == Verb::send ? load.sent : load.received) += action.range.count;
  }
  return load;
}

}  // namespace

double cost(Algorithm algorithm, int size, std::int64_t count, const Link& link) {
  // Each maximum may come from another rank. The cost of a round is therefore an upper bound.
  std::vector<Load> busiest;  // by round
  for (int rank = 0; rank < size; ++rank) {
    const Schedule schedule = algorithm(rank, size, count);
    busiest.resize(std::max(busiest.size(), schedule.rounds.size()));
    for (std::size_t t = 0; t < schedule.rounds.size(); ++t) {
      const Load load = load_of(schedule.rounds[t], rank);
      Load& most = busiest[t];
      most = {std::max(most.sent, load.sent), std::max(most.received, load.received),
              std::max(most.added, load.added), std::max(most.messages, load.messages)};
    }
  }
  double seconds = 0;
  for (const Load& load : busiest) {
    const double bytes = static_cast<double>(std::max(load.sent, load.received)) * sizeof(float);
    seconds += (load.messages > 0 ? link.latency : 0) + bytes / link.bandwidth +
               static_cast<double>(load.added) * sizeof(float) / link.add_rate;
  }
  return seconds;
}

double cost(const Roots& roots, std::int64_t count, const Link& link) {
  const auto ranks = static_cast<double>(roots.of_rank.size());
  if (ranks == 1) return 0;
  std::vector<double> rows_of;
  for (const std::vector<Range>& own : roots.of_rank)
    rows_of.push_back(static_cast<double>(own.size()));
  const double rows = std::accumulate(rows_of.begin(), rows_of.end(), 0.0);
  const auto [fewest, most] = std::ranges::minmax(rows_of);
  // A rank sends all its rows to each other owner. It receives the rows of all others for its own
  // part, and in the second round their sums.
  const double part = static_cast<double>(count) / ranks * sizeof(float);
  // The rank with the fewest rows receives the most.
  const double scatter = part * std::max(most * (ranks - 1), rows - fewest);
  const double gather = part * (ranks - 1);
  return 2 * link.latency + (scatter + gather) / link.bandwidth + part * (rows - 1) / link.add_rate;
}

Range part_of(Range range, int part, int parts, std::int64_t aligned) {
  // The end of a part and the begin of the next one are one expression. So rounding neither loses
  // nor doubles an element.
  const std::int64_t units = ceil_div(range.count, aligned);
  const std::int64_t begin = units * part / parts * aligned;
  const std::int64_t end = std::min(units * (part + 1) / parts * aligned, range.count);
  return {range.begin + begin, end - begin};
}

}  // namespace lockstep
