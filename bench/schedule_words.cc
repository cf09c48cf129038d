// The schedule of an all-reduce in words.
#include <fmt/format.h>

#include <vector>

#include "bench/allreduce.h"

namespace lockstep {
namespace {

std::vector<Schedule> schedules_of(const AlgorithmEntry& algorithm, int ranks,
                                   std::int64_t elements) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < ranks; ++rank)
    schedules.push_back(algorithm.algorithm(rank, ranks, elements));
  return schedules;
}

/// "8..15" in the bucket, "scratch 0..7" in scratch.
std::string words(Range range, std::int64_t elements) {
  const bool scratch = range.begin >= elements;
  const std::int64_t begin = scratch ? range.begin - elements : range.begin;
  return fmt::format("{}{}..{}", scratch ? "scratch " : "", begin, begin + range.count - 1);
}

std::string words(const Action& action, int rank, std::int64_t elements) {
  const std::string range = words(action.range, elements);
  if (action.peer == rank) {
    const std::string from = words({action.source, action.range.count}, elements);
    return action.verb == Verb::add ? fmt::format("adds its own {} to {}", from, range)
                                    : fmt::format("copies its own {} to {}", from, range);
  }
  if (action.verb == Verb::send) return fmt::format("sends {} to {}", range, action.peer);
  return fmt::format("{} {} from {}", action.verb == Verb::add ? "adds" : "copies", range,
                     action.peer);
}

}  // namespace

std::string explain(const AlgorithmEntry& algorithm, int ranks, std::int64_t elements) {
  const std::vector<Schedule> schedules = schedules_of(algorithm, ranks, elements);
  const std::size_t rounds = schedules.front().rounds.size();
  std::string text = fmt::format(
      "{}: {} elements on {} ranks in {} rounds, {}\n{}\n", algorithm.name, elements, ranks, rounds,
      algorithm.canonical(ranks) ? "added in the canonical order" : "added in an order of its own",
      algorithm.about);
  for (std::size_t t = 0; t < rounds; ++t) {
    text += fmt::format("round {}\n", t + 1);
    for (int rank = 0; rank < ranks; ++rank) {
      std::string line;
      for (const Action& action : schedules[rank].rounds[t])
        line += (line.empty() ? "" : ", ") + words(action, rank, elements);
      if (!line.empty()) text += fmt::format("  rank {} {}\n", rank, line);
    }
  }
  return text;
}

}  // namespace lockstep
