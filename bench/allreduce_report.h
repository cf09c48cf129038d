// Results of bench_allreduce: a table, lines of JSON, and the fastest reducer of each size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// One reducer at one size. Times are of the slowest rank, in microseconds.
struct AllreduceRow {
  std::string reducer;
  std::string type;  ///< of the numbers in messages: "fp32"
  std::int64_t elements = 0;
  std::int64_t bytes = 0;  ///< of all elements in that type
  double median_us = 0, p95_us = 0, max_us = 0;
  std::optional<double> bound_us;     ///< the least time possible here; none for one rank
  std::optional<std::int64_t> wrong;  ///< elements that are not the sum; none: not checked

  /// 10^9 bytes of the buffer per second.
  double algbw() const { return static_cast<double>(bytes) / median_us * 1e-3; }
  /// algbw() times 2 (n - 1) / n: what each of `ranks` sends and receives. It compares with the
  /// bandwidth of a link for any number of ranks, as in nccl-tests.
  double busbw(int ranks) const { return algbw() * 2 * (ranks - 1) / ranks; }
  std::optional<double> percent_of_bound() const {
    return bound_us ? std::optional(100 * *bound_us / median_us) : std::nullopt;
  }
};

/// Two lines, names and units, with a word for each column of table_line().
std::string table_heading();
std::string table_line(const AllreduceRow& row, int ranks);
/// One object, without a newline.
std::string json_line(const AllreduceRow& row, int ranks);

/// After the table: the fastest reducer by range of sizes, with its speed as a multiple of that of
/// `peer` ("4 B .. 1 KiB": "shared"), and the average bus bandwidth of each reducer over all sizes.
/// One rank sends nothing, so that it has neither.
std::string results_text(const std::vector<AllreduceRow>& rows, int ranks, const std::string& peer);

}  // namespace lockstep
