#include "src/base/process.h"

#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace lockstep {
namespace {

/// Fields 2, 3, 4 and 22 of /proc/PID/stat: "pid (name) state parent ... start time ...".
struct Stat {
  std::string name;
  char state = '?';
  int parent = 0;
  std::uint64_t start_time = 0;
};

int open_stat(int pid) {
  return open(("/proc/" + std::to_string(pid) + "/stat").c_str(), O_RDONLY | O_CLOEXEC);
}

/// False with errno if the file cannot be read.
bool read_stat(int file, Stat& stat) {
  std::array<char, 1024> text;
  const ssize_t length = pread(file, text.data(), text.size() - 1, 0);
  if (length <= 0) return false;
  text[length] = '\0';
  const char *const name = std::strchr(text.data(), '('), *const end = std::strrchr(
                                                              text.data(),
                                                              ')');  // the name may contain ')'
  if (name == nullptr || end == nullptr) return true;
  stat.name.assign(name + 1, end);
  std::sscanf(end,
              ") %c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu",
              &stat.state, &stat.parent, &stat.start_time);
  return true;
}

Stat stat_of(int pid) {
  Stat stat;
  const int file = open_stat(pid);
  if (file < 0) return stat;
  read_stat(file, stat);
  close(file);
  return stat;
}

}  // namespace

std::uint64_t start_time_of(int pid) { return stat_of(pid).start_time; }

double age_of(int pid) {
  const std::uint64_t start = start_time_of(pid);
  timespec now{};
  if (start == 0 || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
  // The kernel counts the start from boot, with the time in suspend. CLOCK_BOOTTIME does so too.
  return now.tv_sec + 1e-9 * now.tv_nsec - static_cast<double>(start) / sysconf(_SC_CLK_TCK);
}

std::string program_of(int pid) { return stat_of(pid).name; }
int parent_of(int pid) { return stat_of(pid).parent; }

std::string process_space() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::error_code ignored;
  const std::string numbers = std::filesystem::read_symlink("/proc/self/ns/pid", ignored).string();
  return boot.empty() || numbers.empty() ? "" : boot + " " + numbers;
}

Process::Process(int pid, std::uint64_t start_time)
    : pid_(pid), start_time_(start_time), file_(open_stat(pid)) {}

Process::~Process() {
  if (file_ >= 0) close(file_);
}

Condition Process::condition() {
  if (file_ < 0) file_ = open_stat(pid_);
  Stat stat;
  if (file_ < 0 || !read_stat(file_, stat)) {
    // After its parent has collected the process, a read of the open file fails with ESRCH. Any
    // other error says nothing about it, such as a lack of descriptors. Then kill() with signal 0
    // tells.
    const bool collected = file_ >= 0 && errno == ESRCH;
    return collected || (kill(pid_, 0) != 0 && errno == ESRCH) ? Condition::gone : Condition::runs;
  }
  if (start_time_ != 0 && stat.start_time != 0 && stat.start_time != start_time_)
    return Condition::gone;
  if (stat.state == 'Z' || stat.state == 'X') return Condition::gone;
  if (stat.state == 'T') return Condition::stopped;
  return stat.state == 't' ? Condition::traced : Condition::runs;
}

}  // namespace lockstep
