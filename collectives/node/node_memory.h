// Memory that all ranks of one node map.
#pragma once

#include <cstddef>
#include <string>

#include "src/device/memory.h"

namespace lockstep {

class Comm;

/// Memory that every rank of a node may read and write. 4096-aligned, zeroed and reserved, so that
/// no write can fail. The constructor removes the name of its file in /dev/shm. Only a rank that is
/// killed in the constructor leaves a file, which the next run removes. Each rank keeps the memory
/// until its own destructor, which waits for no other rank.
class NodeMemory {
 public:
  /// Collective over `all`: all ranks that need the memory on any host. `node`: those of this host.
  /// `bytes` may differ between hosts. If a host has no room, or its ranks see different files, all
  /// ranks of `all` throw the same error, which names `purpose` ("the reducer shared"). `file`: a
  /// path below /dev/shm that does not exist, the same on the ranks of a host. The file stays when
  /// the ranks are gone. Empty: no file stays.
  NodeMemory(const Comm& all, const Comm& node, std::size_t bytes, const std::string& purpose,
             const std::string& file = "");
  NodeMemory& operator=(NodeMemory&&) = delete;  ///< neither copied nor moved

  std::byte* data() const { return memory_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  Memory memory_;
  std::size_t bytes_ = 0;
};

}  // namespace lockstep
