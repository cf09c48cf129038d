// Snapshot: a copy of the state of a run, which the ranks of a host make together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/comm/comm.h"
#include "collectives/node/node_memory.h"
#include "net/checkpoint.h"

namespace lockstep {

/// Memory of one copy on each host. Belongs to the computing thread, except sections(), which
/// another thread may read until the next take().
class Snapshot {
 public:
  /// Collective. Reserves memory for `bytes` of sections on rank 0's host, or on all hosts if
  /// `everywhere`; the ranks of others only compare. `threads`: that this rank may use. Throws
  /// AgreedError if a host is short of memory.
  Snapshot(const Comm& comm, std::size_t bytes, bool everywhere, int threads);

  /// Collective. Copies `state` (the sections of a checkpoint, the same on all ranks) after `step`:
  /// each rank of the host copies its part. Compares the ranks in the same pass. Throws AgreedError
  /// as verify_mirror(). Returns the name of the first section that is not finite, the same on all
  /// ranks; empty: all are. The copy is complete when it returns.
  std::string take(const Layout& layout, const std::vector<ConstSection>& state, std::int64_t step);

  /// Bytes of the copy.
  std::size_t bytes() const { return memory_.bytes(); }
  /// The copy. Only on hosts that keep one.
  const std::vector<ConstSection>& sections() const { return sections_; }

 private:
  const Comm comm_;
  const Comm node_;
  const bool keeps_;
  const int threads_;
  NodeMemory memory_;
  std::vector<ConstSection> sections_;
};

}  // namespace lockstep
