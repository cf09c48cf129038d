// The parts of bench_allreduce: the time of an all-reduce and the least time that it can take, and
// the report of the results.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/comm/comm.h"
#include "src/base/view.h"

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

/// After the table: the fastest reducer at each size, with its speed as a multiple of that of
/// kPeer, and the average bus bandwidth of each reducer over all sizes. One rank sends nothing, so
/// that it has neither.
std::string results_text(const std::vector<AllreduceRow>& rows, int ranks);

/// MPI_Allreduce in fp32, in place and blocking: the peer in every table.
inline constexpr const char* kPeer = "MPI_Allreduce";

struct TimingOptions {
  int iterations = 0;  ///< 0: as many as fit into about 0.15 s, at least 7
  int warmup = 3;      ///< iterations before them
  bool check = false;  ///< compare every element of one iteration
  /// Type of the numbers in messages; the buffers are always fp32. kPeer supports only fp32.
  Type type = Type::f32;
};

/// Times the reducer `name`, or kPeer, on buckets of `bytes`. Each iteration writes its bucket
/// anew, as a backward pass does. Several buckets take turns, so that caches help no more than in
/// training. Throws AgreedError if the reducer cannot run here. Leaves bound_us empty. Collective.
AllreduceRow time_allreduce(const Comm& comm, const std::string& name, std::int64_t bytes,
                            const TimingOptions& options);

/// The least time of an all-reduce, in microseconds. On one host: all ranks at once add their parts
/// by the same kernel in private memory. On several: the bytes that each host has to send, at the
/// measured bandwidth between hosts. Collective.
class AllreduceBound {
 public:
  explicit AllreduceBound(const Comm& comm);
  /// None for one rank. Collective.
  std::optional<double> operator()(std::int64_t bytes, Type type) const;
  int hosts() const { return hosts_; }
  /// "2(n-1)/n of the bytes at 0.117 GB/s between 2 hosts"
  std::string describe() const;

 private:
  Comm comm_;
  int hosts_;
  double bytes_per_s_ = 0;  ///< between hosts
};

}  // namespace lockstep
