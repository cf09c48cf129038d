#include "collectives/node/shared_counter.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace lockstep {
namespace {

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Used because std::atomic::wait() works only within one process. Without FUTEX_PRIVATE_FLAG,
/// which identifies a word by its address within one process.
long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* timeout) {
  static_assert(sizeof word == sizeof(std::uint32_t));
  return syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

}  // namespace

void SharedCounter::add(std::uint32_t number) {
  // Sequentially consistent: either wait() sees the new value, or this sees the sleeper.
  value_.fetch_add(number);
  if (sleepers_.load() > 0) futex(value_, FUTEX_WAKE, INT_MAX, nullptr);
}

void SharedCounter::wait(std::uint32_t mark, int looks) {
  constexpr int kYields = 50;
  for (int i = 0; i < looks; ++i) {
    if (reached(mark)) return;
    pause();
  }
  for (int i = 0; i < kYields; ++i) {
    if (reached(mark)) return;
    sched_yield();
  }
  // The sleeper is counted before the value is read again, see add(). If the value changes after
  // that, the kernel does not let this rank sleep.
  sleepers_.fetch_add(1);
  const std::uint32_t value = value_.load();
  if (static_cast<std::int32_t>(value - mark) < 0) {
    const timespec timeout{0, 1'000'000};
    futex(value_, FUTEX_WAIT, value, &timeout);
  }
  sleepers_.fetch_sub(1);
}

}  // namespace lockstep
