#include "collectives/watch/start_watch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "collectives/watch/end_all_ranks.h"
#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/machine.h"
#include "src/base/process.h"

namespace lockstep {
namespace {

constexpr auto kFirstLook = std::chrono::seconds(1);
constexpr std::chrono::duration<double> kLook(0.25);
constexpr int kLooks = 8;  ///< in a row that see a rank stopped: two seconds
constexpr std::chrono::duration<double> kSpeak(5);  ///< that the rank which speaks gets to do so
constexpr const char* kJob = "PMIX_NAMESPACE";
constexpr const char* kRank = "PMIX_RANK";

int number(std::string_view text) {
  int value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// The value of `name` in the environment that process `pid` was started with; empty if there is
/// none.
std::string variable_of(const std::string& pid, const std::string& name) {
  std::ifstream file("/proc/" + pid + "/environ", std::ios::binary);
  for (std::string entry; std::getline(file, entry, '\0');) {
    if (entry.rfind(name + "=", 0) == 0) return entry.substr(name.size() + 1);
  }
  return "";
}

/// Processes of the job `job` on this host that were started by our parent, ourselves included, by
/// their rank.
std::map<int, int> ranks_of(const std::string& job) {
  std::map<int, int> pids;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string pid = entry.path().filename().string();
    if (number(pid) <= 0 || parent_of(number(pid)) != getppid() || variable_of(pid, kJob) != job)
      continue;
    pids[number(variable_of(pid, kRank))] = number(pid);
  }
  return pids;
}

}  // namespace

StartWatch::StartWatch(std::string program) : program_(std::move(program)) {
  // Here, for MPI_Init adds to the environment while the thread runs, and may move it.
  const char* const job = std::getenv(kJob);
  if (job == nullptr) return;
  job_ = job;
  thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

StartWatch::~StartWatch() = default;

void StartWatch::watch(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  const auto never = [] { return false; };
  woken_.wait_for(lock, stop, kFirstLook, never);
  std::map<int, int> ranks;  // that were ever seen: one that has gone may have spoken
  std::map<int, int> looks;  // by process: how often in a row it was stopped
  double last = now_seconds();
  for (; !stop.stop_requested(); woken_.wait_for(lock, stop, kLook, never)) {
    const double now = now_seconds();
    if (now - last > 4 * kLook.count())
      looks.clear();  // we were stopped ourselves: all may have been
    last = now;
    int stopped = -1, speaker = -1;
    ranks.merge(ranks_of(job_));
    for (const auto& [rank, pid] : ranks) {
      const bool now_stopped = Process(pid, 0).condition() == Condition::stopped;
      looks[pid] = now_stopped ? looks[pid] + 1 : 0;
      if (looks[pid] > kLooks && stopped < 0) stopped = rank;
      if (!now_stopped && speaker < 0) speaker = pid;
    }
    if (stopped < 0) continue;
    const auto gone = [&] { return Process(speaker, 0).condition() == Condition::gone; };
    while (speaker != getpid() && !gone() && !stop.stop_requested() &&
           now_seconds() < now + kSpeak.count())
      woken_.wait_for(lock, stop, kLook, never);
    if (stop.stop_requested()) return;
    if (gone()) end_all_ranks(kExitFailure);
    const std::string line = fmt::format(
        "{}: rank {} (pid {}, host {}) was stopped by a signal (SIGSTOP?) during MPI's start, "
        "while others ran: a run is stopped and continued as a whole or not at all",
        program_, stopped, ranks.at(stopped), host_name());
    print_and_end_all_ranks(line, kExitFailure);
  }
}

}  // namespace lockstep
