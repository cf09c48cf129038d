#include "apps/supervise/host_ranks.h"

#include <fmt/format.h>
#include <glob.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <regex>

#include "src/base/process.h"
#include "src/files/file.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMemory = "/dev/shm";

/// "/dev/shm/lockstep-run-0-*"
std::string folders() { return fmt::format("{}/lockstep-run-{}-*", kMemory, ::geteuid()); }

/// The value of `name` in the environment of process `pid`; nothing: it is not set.
std::optional<std::string> variable_of(int pid, const std::string& name) {
  // The kernel opens this file only for processes of the same user, so others never match.
  std::ifstream file(fmt::format("/proc/{}/environ", pid), std::ios::binary);
  for (std::string entry; std::getline(file, entry, '\0');)
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  return {};
}

std::vector<fs::path> matches_of(const std::string& pattern) {
  std::vector<fs::path> paths;
  glob_t found = {};
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0)
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  return paths;
}

/// A loop of a shell over the folders of the runs of this id; $d is one.
std::string for_each_folder(const std::string& id, std::string_view work) {
  return fmt::format("for f in {}/step.{}; do d=${{f%/*}}; [ -O \"$d\" ] && {}; done 2>/dev/null; ",
                     folders(), id, work);
}

/// A loop of a shell over the processes with this id; $p is one.
/// grep -z, because entries of environ end with a null byte.
std::string for_each_process(const std::string& id, std::string_view work) {
  return fmt::format(
      "for f in $(grep -slz '^{}={}$' /proc/[0-9]*/environ); do p=${{f%/environ}}; {}; done "
      "2>/dev/null; ",
      kSupervisor, id, work);
}

}  // namespace

StepFiles step_files(const std::string& id) {
  constexpr std::uint64_t kMost = 16 + 4096;  // the number and the path
  StepFiles files;
  for (const fs::path& file : matches_of(fmt::format("{}/step.{}", folders(), id))) {
    struct stat status {};
    if (::lstat(file.parent_path().c_str(), &status) != 0 || status.st_uid != ::geteuid()) continue;
    std::error_code none;
    const auto text = read_file(file, kMost);
    if (text) files[file] = {fs::last_write_time(file, none), *text};
  }
  return files;
}

std::int64_t step_in(std::string_view text) {
  std::int64_t step = -1;
  std::from_chars(text.data(), text.data() + text.size(), step);
  return step;
}

std::vector<int> processes_of(const std::string& id) {
  std::vector<int> pids;
  for (const fs::path& process : matches_of("/proc/[0-9]*")) {
    const int pid = std::atoi(process.filename().c_str());
    if (pid != ::getpid() && variable_of(pid, kSupervisor) == id) pids.push_back(pid);
  }
  return pids;
}

std::vector<int> stopped_of(const std::string& id) {
  std::vector<int> pids = processes_of(id);
  std::erase_if(pids, [](int pid) { return Process(pid, 0).condition() != Condition::stopped; });
  return pids;
}

bool is_rank(int pid) { return variable_of(pid, "PMIX_RANK").has_value(); }

// "vader_segment.*.UID.JOB.*" (Open MPI 4) or "sm_segment.*.UID.JOB.*" (Open MPI 5).
std::set<std::string> segments_of(int pid) {
  static const std::regex file(R"(/dev/shm/((?:vader|sm)_segment)\.\S+(\.\d+\.[0-9a-f]+)\.\d+$)");
  std::set<std::string> patterns;
  std::ifstream maps(fmt::format("/proc/{}/maps", pid));
  std::smatch found;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("_segment.") != line.npos && std::regex_search(line, found, file))
      patterns.insert(fmt::format("{}.*{}.*", found.str(1), found.str(2)));
  }
  return patterns;
}

void clear_host(const std::string& id, std::set<std::string>& segments) {
  for (const int pid : processes_of(id)) {
    segments.merge(segments_of(pid));  // it may be younger than the last look for segments
    ::kill(pid, SIGKILL);
  }
  for (const std::string& pattern : segments)
    for (const fs::path& file : matches_of(fmt::format("{}/{}", kMemory, pattern)))
      ::unlink(file.c_str());
}

std::string clearing_command(const std::string& id, const std::set<std::string>& segments) {
  std::string command = for_each_process(id, "kill -9 ${p#/proc/}");
  for (const std::string& pattern : segments)
    command += fmt::format("rm -f {}/{}; ", kMemory, pattern);
  return command;
}

std::string stopped_command(const std::string& id) {
  return for_each_process(id,
                          fmt::format("grep -qs '^State:.T' $p/status && echo {}", kRankStopped));
}

std::string steps_command(const std::string& id) {
  return for_each_folder(id, "cat \"$f\" && echo");
}

void forget_states(const std::string& id) {
  std::error_code ignored;
  for (const auto& [file, text] : step_files(id)) fs::remove_all(file.parent_path(), ignored);
}

std::string forgetting_command(const std::string& id) {
  return for_each_folder(id, "rm -rf \"$d\"");
}

}  // namespace lockstep
