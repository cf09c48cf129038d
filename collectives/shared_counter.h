// A counter in memory that several processes share: it only grows, and somebody waits until it has
// reached a mark.
#pragma once

#include <atomic>
#include <cstdint>

namespace lockstep {

/// Zeroed memory is a counter at 0. It may wrap around as long as marks lie within 2^31 of it. What
/// a process wrote before add() is seen by those who see reached().
class alignas(64) SharedCounter {
 public:
  void add(std::uint32_t number);
  bool reached(std::uint32_t mark) const {
    return static_cast<std::int32_t>(value_.load(std::memory_order_acquire) - mark) >= 0;
  }
  /// Waits until `mark` is reached, but not for ever: after about a millisecond of sleep it
  /// returns, so that the caller can look after other things. Looks `spins` times, then gives its
  /// core away `yields` times before it goes to sleep.
  void wait(std::uint32_t mark, int spins, int yields);

 private:
  std::atomic<std::uint32_t> value_;
  std::atomic<std::uint32_t> sleepers_;
};

}  // namespace lockstep
