// What bench_allreduce measured, for people and programs: a table, lines of JSON, who wins where, a
// plot.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// One reducer at one size. Times are of the slowest rank, in microseconds, over the iterations.
struct AllreduceRow {
  std::string reducer;
  std::string type;  ///< of the numbers that cross between ranks: "fp32"
  std::int64_t elements = 0;
  std::int64_t bytes = 0;  ///< of all elements in that type
  double median_us = 0, p95_us = 0, max_us = 0;
  std::optional<double> bound_us;     ///< no all-reduce here can take less; none for one rank
  std::optional<std::int64_t> wrong;  ///< elements that were not the sum; none: not looked at

  /// 10^9 bytes of the buffer per second.
  double algbw() const { return static_cast<double>(bytes) / median_us * 1e-3; }
  /// The same times 2 (n - 1) / n: what each of `ranks` sends and receives meanwhile, so that it
  /// can be compared with the speed of a link whatever the number of ranks (as nccl-tests has it).
  double busbw(int ranks) const { return algbw() * 2 * (ranks - 1) / ranks; }
  std::optional<double> percent_of_bound() const {
    return bound_us ? std::optional(100 * *bound_us / median_us) : std::nullopt;
  }
};

std::string table_heading();
std::string table_line(const AllreduceRow& row, int ranks);
/// One object, without a newline.
std::string json_line(const AllreduceRow& row, int ranks);

/// "4 B .. 1 KiB": "shared": which reducer has the least median in which range of the measured
/// sizes, and how much faster than `peer` it is there.
std::string crossover_table(const std::vector<AllreduceRow>& rows, const std::string& peer);

/// An SVG document: time and bus bandwidth over size, a line for each reducer, the bound dashed.
std::string plot(const std::vector<AllreduceRow>& rows, int ranks, const std::string& title);

/// "1.5 KiB"
std::string size_name(std::int64_t bytes);

}  // namespace lockstep
