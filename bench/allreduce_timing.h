// How long an all-reduce takes, and how long it has to.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "bench/allreduce_report.h"
#include "collectives/comm/comm.h"
#include "src/base/view.h"

namespace lockstep {

/// MPI_Allreduce itself, in place and blocking: the peer in every table.
inline constexpr const char* kPeer = "MPI_Allreduce";

struct TimingOptions {
  int iterations = 0;  ///< 0: as many as fit into about 0.15 s, at least 7
  bool check = false;  ///< compare every element of one iteration
  /// Of the numbers that cross between ranks. In 16 bits the reducers round fp32 buffers, and
  /// kPeer has buffers of that type and adds them by an operation of ours.
  Type type = Type::f32;
  bool doubles = false;  ///< of kPeer, instead: gradients are fp32, and no reducer sums doubles
  std::string type_name() const { return doubles ? "fp64" : name_of(type); }
  std::size_t element_bytes() const { return doubles ? sizeof(double) : size_of(type); }
};

/// Collective. The reducer called `name`, or kPeer, on buckets of `bytes`. Before each iteration
/// the bucket is written anew, as a backward pass does, and several buckets take turns, so that
/// caches help no more than in training. Throws AgreedError where the reducer cannot run here. The
/// bound is left out.
AllreduceRow time_allreduce(const Comm& comm, const std::string& name, std::int64_t bytes,
                            const TimingOptions& options);

/// Collective. What no all-reduce of `bytes` of numbers of `type` can be faster than, in
/// microseconds; none for one rank. On one host: all ranks at once add their parts by the same
/// kernel in memory of their own. On several: what each host has to send, at the speed that
/// messages of some 4 MiB go from each host to the next at once.
class AllreduceBound {
 public:
  explicit AllreduceBound(const Comm& comm);
  std::optional<double> operator()(std::int64_t bytes, Type type = Type::f32) const;
  int hosts() const { return hosts_; }
  /// "2(n-1)/n of the bytes at 0.117 GB/s between 2 hosts"
  std::string describe() const;

 private:
  Comm comm_;
  int hosts_;
  double bytes_per_s_ = 0;  ///< between hosts
};

}  // namespace lockstep
