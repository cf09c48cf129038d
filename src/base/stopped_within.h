// The pause of a thread that ends early if the thread is to stop.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>

namespace lockstep {

/// Waits. Returns true, at once, when a stop is requested.
inline bool stopped_within(const std::stop_token& stop, double seconds) {
  std::mutex mutex;
  std::condition_variable_any woken;
  std::unique_lock lock(mutex);
  return woken.wait_for(lock, stop, std::chrono::duration<double>(seconds),
                        [&] { return stop.stop_requested(); });
}

}  // namespace lockstep
