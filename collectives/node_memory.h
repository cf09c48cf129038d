// Memory that all ranks of one node see, without MPI once it is made.
#pragma once

#include <cstddef>
#include <string>

#include "src/memory.h"

namespace lockstep {

class Comm;

/// `bytes` of memory that every rank of `node` may read and write. 4096-aligned and zeroed. Its
/// file in /dev/shm has lost its name when the constructor returns, so that nothing is left behind
/// however the ranks end, but for those that are killed while they make it: their files are removed
/// by the next. Each rank keeps the memory until its own destructor, which waits for
/// nobody.
class NodeMemory {
 public:
  /// Collective over `node`. Throws the same AgreedError on all its ranks if the shared memory of
  /// the host has no room, or is not shared; `purpose` ("the reducer shared") is named in it.
  NodeMemory(const Comm& node, std::size_t bytes, const std::string& purpose);
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  std::byte* data() const { return memory_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  Memory memory_;
  std::size_t bytes_ = 0;
};

}  // namespace lockstep
