#include "src/base/usage.h"

#include <cstdio>
#include <ctime>
#include <fstream>

#include "src/base/clock.h"
#include "src/base/machine.h"

namespace lockstep {

Usage usage_now(const std::string& interfaces) {
  Usage usage;
  std::ifstream in(interfaces);
  for (std::string line; std::getline(in, line);) {  // "  eth0: RECEIVED ... SENT ..."
    const std::size_t colon = line.find(':');
    // Loopback carries only messages within the host.
    if (colon == line.npos || line.substr(0, colon).ends_with(" lo")) continue;
    long received = 0, sent = 0;
    if (std::sscanf(line.c_str() + colon + 1, "%ld %*s %*s %*s %*s %*s %*s %*s %ld", &received,
                    &sent) != 2)
      continue;
    usage.received += received;
    usage.sent += sent;
  }
  timespec cpu{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  usage.cpu_ns = std::int64_t{cpu.tv_sec} * 1'000'000'000 + cpu.tv_nsec;
  usage.bytes = static_cast<std::int64_t>(own_memory_bytes());
  usage.at_ns = now_ns();
  return usage;
}

}  // namespace lockstep
