#include "src/base/machine.h"

#include <fmt/format.h>
#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "revision.h"
#include "src/base/check.h"
#include "src/base/crc32c.h"

namespace lockstep {

std::vector<int> allowed_cores() {
  std::vector<int> cores;
  // With OMP_PROC_BIND the first thread is bound to one place before main() begins. OMP_PLACES
  // decides how many places there are; the default is one per core.
  if (omp_get_proc_bind() != omp_proc_bind_false) {
    for (int place = 0; place < omp_get_num_places(); ++place) {
      std::vector<int> ids(omp_get_place_num_procs(place));
      omp_get_place_proc_ids(place, ids.data());
      cores.insert(cores.end(), ids.begin(), ids.end());
    }
    std::ranges::sort(cores);
    cores.erase(std::unique(cores.begin(), cores.end()), cores.end());
  }
  // The kernel refuses a mask that is smaller than its own.
  for (int most = 1024; most <= 1 << 20 && cores.empty(); most *= 2) {
    const std::size_t bytes = CPU_ALLOC_SIZE(most);
    std::vector<std::byte> mask(bytes);
    auto* const set = reinterpret_cast<cpu_set_t*>(mask.data());
    if (sched_getaffinity(0, bytes, set) != 0) continue;
    for (int core = 0; core < most; ++core)
      if (CPU_ISSET_S(core, bytes, set)) cores.push_back(core);
  }
  if (cores.empty()) cores.push_back(0);
  return cores;
}

void leave_place() {
  if (omp_get_proc_bind() == omp_proc_bind_false) return;
  const std::vector<int> cores = allowed_cores();
  const std::size_t bytes = CPU_ALLOC_SIZE(cores.back() + 1);
  std::vector<std::byte> mask(bytes);  // zeros: no core
  auto* const set = reinterpret_cast<cpu_set_t*>(mask.data());
  for (const int core : cores) CPU_SET_S(core, bytes, set);
  sched_setaffinity(0, bytes, set);  // after a failure the thread stays bound
}

namespace {

/// Calls visit(folder, v2) for every control group that limits `controller` ("cpu") for this
/// process: its own group and the groups around it, of both versions. A container hides the outer
/// groups.
template <class Visit>
void each_group(const std::string& groups, const std::string& root, const std::string& controller,
                Visit visit) {
  std::ifstream file(groups);
  for (std::string line; std::getline(file, line);) {  // "number:controllers:/path"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool v2 = controllers.empty();
    if (!v2 && ("," + controllers + ",").find("," + controller + ",") == std::string::npos)
      continue;
    // The limit of an outer group holds for all groups in it, so each level counts.
    for (std::filesystem::path path = line.substr(second + 1);; path = path.parent_path()) {
      visit(root + (v2 ? "" : "/" + controller) + path.string() + "/", v2);
      if (!path.has_relative_path()) break;
    }
  }
}

/// The number after `key` in a file of lines "key number ..."; 0 if there is no such line.
double number_after(const std::string& file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(key) && std::isspace(line[key.size()]))
      return std::strtod(line.c_str() + key.size(), nullptr);
  }
  return 0;
}

}  // namespace

double core_quota(const std::string& groups, const std::string& root) {
  double least = std::numeric_limits<double>::infinity();
  each_group(groups, root, "cpu", [&](const std::string& folder, bool v2) {
    std::string text;
    double period = 0;
    if (v2) {
      std::ifstream(folder + "cpu.max") >> text >> period;
    } else {
      std::ifstream(folder + "cpu.cfs_quota_us") >> text;
      std::ifstream(folder + "cpu.cfs_period_us") >> period;
    }
    const double quota = std::strtod(text.c_str(), nullptr);  // "max" and -1: no limit
    if (quota > 0 && period > 0) least = std::min(least, quota / period);
  });
  return least;
}

double memory_quota(const std::string& groups, const std::string& root) {
  double least = std::numeric_limits<double>::infinity();
  each_group(groups, root, "memory", [&](const std::string& folder, bool v2) {
    std::string text;
    double used = 0;
    std::ifstream(folder + (v2 ? "memory.max" : "memory.limit_in_bytes")) >> text;
    std::ifstream(folder + (v2 ? "memory.current" : "memory.usage_in_bytes")) >> used;
    const double limit = std::strtod(text.c_str(), nullptr);  // "max": no limit
    if (limit <= 0) return;
    // The usage includes cached files, which the kernel drops if memory is short.
    used -= number_after(folder + "memory.stat", v2 ? "inactive_file" : "total_inactive_file");
    used -= number_after(folder + "memory.stat", v2 ? "active_file" : "total_active_file");
    least = std::min(least, std::max(limit - std::max(used, 0.0), 0.0));
  });
  return least;
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
  constexpr auto kUnknown = static_cast<double>(std::numeric_limits<std::int64_t>::max());
  const double machine = number_after("/proc/meminfo", "MemAvailable:") * 1024;
  return static_cast<std::size_t>(
      std::min({machine > 0 ? machine : kUnknown, memory_quota(), kUnknown}));
}

std::size_t own_memory_bytes() {
  const auto kilobytes = [](const char* key) { return number_after("/proc/self/status", key); };
  return static_cast<std::size_t>(kilobytes("RssAnon:") + kilobytes("RssShmem:")) * 1024;
}

double memory_kills() { return number_after("/proc/vmstat", "oom_kill"); }

std::string program_checksum() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  require(!bytes.empty(), "cannot read /proc/self/exe, the program's own file; mount /proc");
  return fmt::format("{:08x}", crc32c(bytes));
}

bool switched_on(const char* name) {
  const char* const variable = std::getenv(name);
  const std::string choice = variable == nullptr ? "on" : variable;
  if (choice != "on" && choice != "off")
    fail_usage("{} is \"{}\". Set it to off, or unset it.", name, choice);
  return choice == "on";
}

std::string version_name() {
  const std::string_view revision = LOCKSTEP_REVISION;
  if (revision.empty()) return LOCKSTEP_VERSION;
  return fmt::format("{} ({})", LOCKSTEP_VERSION, revision);
}

std::string compiler_name() {
#ifdef __clang__
  return "Clang " __clang_version__;
#else
  return "GCC " __VERSION__;
#endif
}

std::string build_name() { return fmt::format("{}, {}", version_name(), compiler_name()); }

}  // namespace lockstep
