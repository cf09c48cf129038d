#include "src/base/usage.h"

#include <ctime>
#include <fstream>
#include <sstream>

#include "src/base/clock.h"
#include "src/base/machine.h"

namespace lockstep {

Usage usage_now(const std::string& interfaces) {
  constexpr int kBetween = 7;  // columns between the bytes received and sent
  Usage usage;
  std::ifstream in(interfaces);
  for (std::string line; std::getline(in, line);) {  // "  eth0: RECEIVED ... SENT ..."
    const std::size_t colon = line.find(':');
    if (colon == line.npos || line.substr(0, colon).ends_with(" lo")) continue;
    std::istringstream numbers(line.substr(colon + 1));
    std::int64_t received = 0, other = 0, sent = 0;
    numbers >> received;
    for (int i = 0; i < kBetween; ++i) numbers >> other;
    if (!(numbers >> sent)) continue;
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
