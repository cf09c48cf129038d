// The time of an all-reduce, and the least time that it can take.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bench/allreduce_report.h"
#include "collectives/comm/comm.h"
#include "src/base/view.h"

namespace lockstep {

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
