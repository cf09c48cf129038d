// A device whose work is done later, without a GPU: the double on which the order of events is
// proven. Streams are threads, so that ThreadSanitizer sees every pair of accesses that no event
// orders; memory of the device is closed to the host while the streams are idle; what is captured
// is done again as it was given.
//
// The numbers are those of the CPU with one thread, bit for bit.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "src/device/device.h"

namespace lockstep {

struct AsyncOptions {
#ifdef __SANITIZE_THREAD__
  static constexpr bool kGuard = false;
#else
  static constexpr bool kGuard = true;
#endif
  /// Pages of Place::device may be touched by work alone; anybody else meets SIGSEGV. The lock of
  /// that guard orders the streams and would hide races from ThreadSanitizer: it is off there.
  bool guard_pages = kGuard;
  /// Plans throw PointerFault and kernels get SIGSEGV for a pointer to other memory than this
  /// device's (tests/support/device_pages.h). Off for ThreadSanitizer, because of the same lock.
  bool check_pointers = kGuard;
  /// One of eight pieces of work, drawn from `seed`, begins after a pause of so many microseconds
  /// at most.
  int most_delay_us = 30;
  std::uint64_t seed = 1;
  int run_ahead = 4;
  /// DeviceTraits::lanes. A GPU's number cuts sums as a GPU does; the bits are then others.
  std::int64_t lanes = 1;
  /// Bytes of Place::device that can be had at once; more is an Error.
  std::size_t largest = std::size_t{1} << 40;
  /// Whether capture() makes a graph, or says that there is nothing to gain.
  bool captures = true;
  /// Counts the graphs that were made.
  int* captured = nullptr;
  /// Counts the copies from or to memory of the host that is not pinned: a GPU's are slow.
  std::atomic<int>* pageable_copies = nullptr;
};

/// The double of make_cpu_device(1). One host thread uses it, except Stream::enqueue(), which
/// belongs to the stream's thread.
std::unique_ptr<Device> make_async_device(const AsyncOptions& options = {});

}  // namespace lockstep
