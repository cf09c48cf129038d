// A growing counter in memory that several processes share. A rank can wait until it reaches a
// mark.
#pragma once

#include <atomic>
#include <cstdint>

namespace lockstep {

/// How often wait() looks. If each of `ranks` has one of `cores`, for 50 to 200 us. Else the ranks
/// that it waits for want its core. (4 ranks on 2 busy cores, 4 KiB: 10 us, and 25 us with 200
/// looks. To sleep at once is slower than both.)
constexpr int patient_looks(int ranks, double cores) { return ranks <= cores ? 5000 : 10; }

/// Zeroed memory is a counter at 0. It may wrap around if marks are within 2^31 of it. Writes
/// before add() are visible after reached() returns true.
class alignas(64) SharedCounter {
 public:
  void add(std::uint32_t number);
  bool reached(std::uint32_t mark) const {
    return static_cast<std::int32_t>(value_.load(std::memory_order_acquire) - mark) >= 0;
  }
  /// Waits until `mark` is reached: looks `looks` times, then yields its core, then sleeps. Always
  /// returns after about a millisecond of sleep, so that the caller can do other work.
  void wait(std::uint32_t mark, int looks);

 private:
  std::atomic<std::uint32_t> value_;
  std::atomic<std::uint32_t> sleepers_;
};

}  // namespace lockstep
