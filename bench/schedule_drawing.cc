// The schedule of an all-reduce in words and as a picture.
#include <fmt/format.h>

#include <cmath>
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

std::string heading(const AlgorithmEntry& algorithm, int ranks, std::int64_t elements,
                    std::size_t rounds) {
  return fmt::format(
      "{}: {} elements on {} ranks in {} rounds, {}", algorithm.name, elements, ranks, rounds,
      algorithm.canonical(ranks) ? "added in the canonical order" : "added in an order of its own");
}

const char* colour_of(const Action& action) {
  return action.verb == Verb::add ? "#d1495b" : "#1b6ca8";
}

/// A local action.
std::string dot(const Action& action, double x, double y, const std::string& label) {
  return fmt::format(
      "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/><text x=\"{:.1f}\" "
      "y=\"{:.1f}\">{}</text>\n",
      x, y + 8, colour_of(action), x + 8, y + 12, label);
}

struct Point {
  double x, y;
};

/// A message.
std::string arrow(const Action& action, Point from, Point to, const std::string& label) {
  constexpr double kShare = 0.72;  // of the way: there, crossing arrows are apart
  const bool add = action.verb == Verb::add;
  return fmt::format(
             "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
             "stroke-width=\"1.5\"{} marker-end=\"url(#{})\"/>\n",
             from.x, from.y, to.x, to.y, colour_of(action), add ? "" : " stroke-dasharray=\"5 3\"",
             add ? "add" : "copy") +
         fmt::format(
             "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" stroke=\"#fff\" "
             "stroke-width=\"4\" paint-order=\"stroke\">{}</text>\n",
             from.x + kShare * (to.x - from.x), from.y + kShare * (to.y - from.y) + 4, label);
}

}  // namespace

std::string explain(const AlgorithmEntry& algorithm, int ranks, std::int64_t elements) {
  const std::vector<Schedule> schedules = schedules_of(algorithm, ranks, elements);
  const std::size_t rounds = schedules.front().rounds.size();
  std::string text =
      heading(algorithm, ranks, elements, rounds) + "\n" + std::string(algorithm.about) + "\n";
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

std::string draw(const AlgorithmEntry& algorithm, int ranks, std::int64_t elements) {
  constexpr double kAcross = 170, kDown = 90, kMargin = 70, kTop = 70;
  const std::vector<Schedule> schedules = schedules_of(algorithm, ranks, elements);
  const std::size_t rounds = schedules.front().rounds.size();
  const double width = 2 * kMargin + kAcross * (ranks - 1) + 60;
  const double height = kTop + kDown * static_cast<double>(rounds) + 40;
  const auto x_of = [&](int rank) { return kMargin + kAcross * rank; };
  const auto y_of = [&](std::size_t round) { return kTop + kDown * static_cast<double>(round); };
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\" font-family=\"sans-serif\" font-size=\"12\">\n<defs>\n",
      width, height);
  for (const auto& [id, colour] : {std::pair{"add", "#d1495b"}, std::pair{"copy", "#1b6ca8"}}) {
    out += fmt::format(
        "<marker id=\"{}\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" "
        "markerHeight=\"8\" orient=\"auto\"><path d=\"M0,0 L8,4 L0,8 z\" fill=\"{}\"/></marker>\n",
        id, colour);
  }
  out += fmt::format(
      "</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
      "<text x=\"10\" y=\"20\">{}; red: added, blue: copied</text>\n",
      heading(algorithm, ranks, elements, rounds));
  for (int rank = 0; rank < ranks; ++rank) {
    out += fmt::format(
        "<text x=\"{0:.1f}\" y=\"{1:.1f}\" text-anchor=\"middle\" font-weight=\"bold\">rank "
        "{2}</text>\n<line x1=\"{0:.1f}\" y1=\"{3:.1f}\" x2=\"{0:.1f}\" y2=\"{4:.1f}\" "
        "stroke=\"#bbb\"/>\n",
        x_of(rank), kTop - 18, rank, kTop - 8, y_of(rounds));
  }
  for (std::size_t t = 0; t < rounds; ++t) {
    out += fmt::format("<text x=\"8\" y=\"{:.1f}\" fill=\"#888\">{}</text>\n", y_of(t) + kDown / 2,
                       t + 1);
    for (int rank = 0; rank < ranks; ++rank) {
      for (const Action& action : schedules[rank].rounds[t]) {
        if (action.verb == Verb::send) continue;  // drawn where it arrives
        const std::string label = words(action.range, elements);
        const double x = x_of(rank), y = y_of(t) + kDown - 14;
        out += action.peer == rank ? dot(action, x, y, label)
                                   : arrow(action, {x_of(action.peer), y_of(t) + 6}, {x, y}, label);
      }
    }
  }
  return out + "</svg>\n";
}

}  // namespace lockstep
