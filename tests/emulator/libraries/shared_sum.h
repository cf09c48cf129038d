// Sums over ranks of one host, in shared memory, for the stand-in of NCCL (nccl.cc). The memory has
// no name: an id names the process that created it, so nothing is left of ranks that are killed.
// A sum never blocks. It waits for ranks that never come, as a kernel of NCCL does.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace emulator {

class SharedSum {
 public:
  static constexpr int kMostRanks = 64;

  SharedSum() = default;
  SharedSum(const SharedSum&) = delete;
  SharedSum& operator=(const SharedSum&) = delete;
  ~SharedSum();

  /// The id of new memory. It serves until this process ends. Empty: the system refuses.
  static std::string create();
  /// false: no process has this id, or another process is this rank.
  bool join(const std::string& id, int rank, int size, int device);
  bool all_joined() const;
  /// Two ranks that have joined with one device: the higher one; -1: there are none.
  int rank_on_used_device() const;

  /// Begins or continues a sum of `count` values. false: it waits for other ranks.
  bool advance(const float* from, float* to, std::size_t count);
  /// Whether the ranks passed different counts to the last sum, which is then left out.
  bool counts_differed() const { return counts_differed_; }

 private:
  struct Member;
  struct Shared;

  bool all(std::uint64_t chunks, std::atomic<std::uint64_t> Member::*reached) const;
  float* slot(int rank) const;

  int rank_ = 0, size_ = 0;
  Shared* shared_ = nullptr;
  std::uint64_t chunk_ = 0;   ///< chunks of all sums that this rank has finished
  std::size_t position_ = 0;  ///< in the values of the current sum
  bool placed_ = false;       ///< the current chunk
  bool counts_differed_ = false;
};

}  // namespace emulator
