// The processor time, memory and network traffic of this process and its host so far.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

struct Usage {
  std::int64_t at_ns = 0;   ///< now_ns() of the measurement
  std::int64_t cpu_ns = 0;  ///< of the cores, by all threads of this process
  std::int64_t bytes = 0;   ///< own_memory_bytes()
  /// Bytes over all network interfaces except loopback, since they came up. Not those of InfiniBand
  /// verbs, which the kernel does not see.
  std::int64_t received = 0, sent = 0;
};

/// Reads two files of /proc. What is not known is 0. Any thread.
Usage usage_now(const std::string& interfaces = "/proc/self/net/dev");

}  // namespace lockstep
