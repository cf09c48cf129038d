#include "src/machine.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <fstream>

#include "revision.h"
#include "src/check.h"

namespace lockstep {

std::vector<int> allowed_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &mask)) cores.push_back(core);
    }
  }
  if (cores.empty()) cores.push_back(0);
  return cores;
}

std::string core_list(const std::vector<int>& cores) {
  std::string text;
  for (std::size_t i = 0; i < cores.size();) {
    std::size_t last = i;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(cores[i]);
    if (last > i) text.append("-").append(std::to_string(cores[last]));
    i = last + 1;
  }
  return text;
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown host";
}

std::size_t available_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::size_t kib = 0;
    if (std::sscanf(line.c_str(), "MemAvailable: %zu kB", &kib) == 1) return kib << 10;
  }
  return std::numeric_limits<std::size_t>::max();
}

std::size_t own_memory_bytes() {
  std::ifstream status("/proc/self/status");
  std::size_t kilobytes = 0;
  for (std::string key; status >> key;) {
    if (key == "RssAnon:" || key == "RssShmem:") {
      std::size_t value = 0;
      status >> value;
      kilobytes += value;
    }
  }
  return kilobytes * 1024;
}

std::string program_checksum() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  std::vector<char> bytes(std::size_t{1} << 20);
  uLong checksum = crc32(0, nullptr, 0);
  while (file.read(bytes.data(), static_cast<std::streamsize>(bytes.size())), file.gcount() > 0) {
    checksum = crc32(checksum, reinterpret_cast<const Bytef*>(bytes.data()),
                     static_cast<uInt>(file.gcount()));
  }
  require(file.eof(), "the program's own file cannot be read (/proc/self/exe): is /proc mounted?");
  return fmt::format("{:08x}", checksum);
}

std::string build_name() {
  const std::string_view revision = LOCKSTEP_REVISION;
  return fmt::format("{}{}{}{}", LOCKSTEP_VERSION, revision.empty() ? "" : " (", revision,
                     revision.empty() ? "" : ")");
}

}  // namespace lockstep
