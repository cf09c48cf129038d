// A counter in memory that several processes share: it only grows, and somebody waits until it has
// reached a mark.
#pragma once

#include <atomic>
#include <cstdint>

namespace lockstep {

/// How a rank waits for others: it looks so often, then gives its core away so often, then sleeps.
struct Patience {
  int looks, yields;

  /// Where every one of `ranks` has a core of `cores` it looks for 50 to 200 us; else the core is
  /// wanted by those it waits for. (4 ranks on 2 busy cores, 4 KiB: 10 us, and with 200 looks 25.
  /// To sleep at once is slower than both.)
  static Patience of(int ranks, double cores) { return {ranks <= cores ? 5000 : 10, 50}; }
};

/// Zeroed memory is a counter at 0. It may wrap around as long as marks lie within 2^31 of it. What
/// a process wrote before add() is seen by those who see reached().
class alignas(64) SharedCounter {
 public:
  void add(std::uint32_t number);
  bool reached(std::uint32_t mark) const {
    return static_cast<std::int32_t>(value_.load(std::memory_order_acquire) - mark) >= 0;
  }
  /// Waits until `mark` is reached, but not for ever: after about a millisecond of sleep it
  /// returns, so that the caller can look after other things.
  void wait(std::uint32_t mark, Patience patience);

 private:
  std::atomic<std::uint32_t> value_;
  std::atomic<std::uint32_t> sleepers_;
};

}  // namespace lockstep
