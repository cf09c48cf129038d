// Memory that all ranks of one node see, without MPI once it is made.
#pragma once

#include <cstddef>
#include <string>

#include "src/device/memory.h"

namespace lockstep {

class Comm;

/// `bytes` of memory that every rank of `node` may read and write. 4096-aligned, zeroed and
/// reserved: no write to it can fail. Its file in /dev/shm has lost its name when the constructor
/// returns. Nothing is left behind, except by ranks that are killed while they make it: the next
/// run removes their files. Each rank keeps the memory until its own destructor, which waits for no
/// other rank.
class NodeMemory {
 public:
  /// Collective over `all`, the ranks that take part in the operation that needs the memory. `node`
  /// is the part of them on this host. `bytes` may differ between hosts. If a host has no room, or
  /// its ranks see different files, all ranks of `all` throw the same error, which names `purpose`
  /// ("the reducer shared"). An agreement of one host only would leave the others waiting.
  NodeMemory(const Comm& all, const Comm& node, std::size_t bytes, const std::string& purpose);
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  std::byte* data() const { return memory_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  Memory memory_;
  std::size_t bytes_ = 0;
};

}  // namespace lockstep
