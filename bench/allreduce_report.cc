// The report of bench_allreduce: the table, JSON lines and the fastest reducers.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "bench/allreduce.h"

namespace lockstep {
namespace {

std::string number_or(const std::optional<double>& value, const char* without) {
  return value ? fmt::format("{:.1f}", *value) : without;
}

/// The reducer with the least median at each size. `auto` is one of the others, so it counts only
/// beside the peer.
std::string ranking(const std::vector<AllreduceRow>& rows) {
  const bool others = std::ranges::any_of(
      rows, [](const AllreduceRow& row) { return row.reducer != "auto" && row.reducer != kPeer; });
  std::map<std::int64_t, const AllreduceRow*> best, peers;
  for (const AllreduceRow& row : rows) {
    if (row.reducer == kPeer) peers[row.bytes] = &row;
    if (others && row.reducer == "auto") continue;
    const AllreduceRow*& least = best[row.bytes];
    if (!least || row.median_us < least->median_us) least = &row;
  }
  std::string text = fmt::format("{:<11}{:<20}times {}\n", "size (B)", "fastest reducer", kPeer);
  for (const auto& [bytes, row] : best) {
    const auto peer = peers.find(bytes);
    text += fmt::format("{:<11}{:<20}{}\n", bytes, row->reducer,
                        peer == peers.end()
                            ? "-"
                            : fmt::format("{:.2f}", peer->second->median_us / row->median_us));
  }
  return text;
}

/// The mean over all sizes, as in nccl-tests, in the order of the table.
std::string average_bandwidths(const std::vector<AllreduceRow>& rows, int ranks) {
  std::string text = fmt::format("{:<20}{}\n", "reducer", "average bus bandwidth, GB/s");
  for (const AllreduceRow& first : rows) {
    if (first.bytes != rows.front().bytes) break;  // each size has the same reducers
    double sum = 0;
    int sizes = 0;
    for (const AllreduceRow& row : rows) {
      if (row.reducer != first.reducer) continue;
      sum += row.busbw(ranks);
      ++sizes;
    }
    text += fmt::format("{:<20}{:.3f}\n", first.reducer, sum / sizes);
  }
  return text;
}

}  // namespace

std::string table_heading() {
  constexpr std::string_view kColumns = "{:<19}{:>11}{:>11}{:>11}{:>11}{:>11}{:>9}{:>9}{:>7}{:>6}";
  return fmt::format(kColumns, "reducer", "size", "elements", "median", "p95", "max", "algbw",
                     "busbw", "bound", "wrong") +
         "\n" +
         fmt::format(kColumns, "(name)", "(B)", "(count)", "(us)", "(us)", "(us)", "(GB/s)",
                     "(GB/s)", "(%)", "(n)");
}

std::string table_line(const AllreduceRow& row, int ranks) {
  return fmt::format("{:<19}{:>11}{:>11}{:>11.2f}{:>11.2f}{:>11.2f}{:>9.3f}{:>9.3f}{:>7}{:>6}",
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

std::string results_text(const std::vector<AllreduceRow>& rows, int ranks) {
  if (ranks == 1) return "One rank sends nothing. Start several: mpirun -np 4 bench_allreduce\n";
  return ranking(rows) + "\n" + average_bandwidths(rows, ranks);
}

}  // namespace lockstep
