#include "bench/allreduce_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace lockstep {
namespace {

std::string number_or(const std::optional<double>& value, const char* without) {
  return value ? fmt::format("{:.1f}", *value) : without;
}

const AllreduceRow& fastest(const std::vector<const AllreduceRow*>& rows) {
  return **std::min_element(rows.begin(), rows.end(), [](const auto* a, const auto* b) {
    return a->median_us < b->median_us;
  });
}

/// "1.5 KiB"
std::string size_name(std::int64_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB"};
  auto value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 3; ++unit) value /= 1024;
  return fmt::format("{:.4g} {}", value, units[unit]);
}

}  // namespace

std::string table_heading() {
  return fmt::format("{:<17}{:>11}{:>11}{:>12}{:>12}{:>12}{:>9}{:>9}{:>8}{:>7}", "reducer", "bytes",
                     "elements", "median us", "p95 us", "max us", "algbw", "busbw", "bound %",
                     "wrong");
}

std::string table_line(const AllreduceRow& row, int ranks) {
  return fmt::format("{:<17}{:>11}{:>11}{:>12.2f}{:>12.2f}{:>12.2f}{:>9.3f}{:>9.3f}{:>8}{:>7}",
                     row.reducer, row.bytes, row.elements, row.median_us, row.p95_us, row.max_us,
                     row.algbw(), row.busbw(ranks), number_or(row.percent_of_bound(), "-"),
                     row.wrong ? std::to_string(*row.wrong) : "-");
}

std::string json_line(const AllreduceRow& row, int ranks) {
  return fmt::format(
      R"({{"reducer": "{}", "type": "{}", "ranks": {}, "bytes": {}, "median_us": {:.3f}, "p95_us": {:.3f}, )"
      R"("max_us": {:.3f}, "algbw_gb_s": {:.4f}, "busbw_gb_s": {:.4f}, "percent_of_bound": {}, )"
      R"("wrong": {}}})",
      row.reducer, row.type, ranks, row.bytes, row.median_us, row.p95_us, row.max_us, row.algbw(),
      row.busbw(ranks), number_or(row.percent_of_bound(), "null"),
      row.wrong ? std::to_string(*row.wrong) : "null");
}

std::string crossover_table(const std::vector<AllreduceRow>& rows, const std::string& peer) {
  std::map<std::int64_t, std::vector<const AllreduceRow*>> by_size;
  for (const AllreduceRow& row : rows) by_size[row.bytes].push_back(&row);
  struct Winner {
    std::int64_t from, to;
    std::string winner;
    double least = 0, most = 0;  ///< times as fast as the peer
  };
  std::vector<Winner> winners;
  for (const auto& [bytes, of_size] : by_size) {
    const AllreduceRow& best = fastest(of_size);
    double ratio = 0;
    for (const AllreduceRow* row : of_size)
      if (row->reducer == peer) ratio = row->median_us / best.median_us;
    if (winners.empty() || winners.back().winner != best.reducer)
      winners.push_back({bytes, bytes, best.reducer, ratio, ratio});
    Winner& last = winners.back();
    last.to = bytes;
    last.least = std::min(last.least, ratio);
    last.most = std::max(last.most, ratio);
  }
  std::string text = fmt::format("{:<24}{:<20}{}\n", "fastest", "reducer", "times " + peer);
  for (const Winner& s : winners) {
    const std::string range =
        s.from == s.to ? size_name(s.from) : size_name(s.from) + " .. " + size_name(s.to);
    const std::string ratio = s.most == 0 ? "-"
                              : s.least == s.most
                                  ? fmt::format("{:.2f}", s.most)
                                  : fmt::format("{:.2f} to {:.2f}", s.least, s.most);
    text += fmt::format("{:<24}{:<20}{}\n", range, s.winner, ratio);
  }
  return text;
}

}  // namespace lockstep
