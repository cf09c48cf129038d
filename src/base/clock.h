// The steady clock, as numbers.
#pragma once

#include <chrono>
#include <cstdint>

namespace lockstep {

/// Time since an instant that all processes of a host share. Never decreases.
inline std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}
inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace lockstep
