// Memory that all ranks of one node see: an MPI shared-memory window.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <string>

namespace lockstep {

class Comm;

/// `bytes` of memory that every rank of `node` may read and write. 4096-aligned and zeroed. All of
/// it is asked for on one rank and carved by hand, because MPI aligns a window's base to 8 bytes
/// only.
///
/// The destructor is collective, but while an exception unwinds it leaves the window to the end of
/// the process: a rank that fails alone must not wait here for ranks that wait for it elsewhere.
class NodeMemory {
 public:
  /// Collective over `node`. Throws the same Error on all its ranks if the shared memory of the
  /// host has no room; `purpose`
  /// ("the reducer shared") is named in it.
  NodeMemory(const Comm& node, std::size_t bytes, const std::string& purpose);
  ~NodeMemory();
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  MPI_Win window_ = MPI_WIN_NULL;  ///< null for a node of one rank, whose memory is its own
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace lockstep
