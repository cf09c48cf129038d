#include "collectives/watch/start_watch.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string_view>
#include <utility>

#include "collectives/watch/end_all_ranks.h"
#include "collectives/watch/host_address.h"
#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/machine.h"
#include "src/base/process.h"
#include "src/base/text.h"

namespace lockstep {
namespace {

constexpr auto kFirstLook = std::chrono::seconds(1);
constexpr std::chrono::duration<double> kLook(0.25);
constexpr int kLooks = 8;  ///< in a row that see a rank stopped: two seconds
constexpr std::chrono::duration<double> kPrint(5);  ///< for the rank that prints
constexpr const char* kJob = "PMIX_NAMESPACE";
constexpr const char* kRank = "PMIX_RANK";

int number(std::string_view text) {
  int value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// The value of `name` in the environment at the start of process `pid`, or empty.
std::string variable_of(const std::string& pid, const std::string& name) {
  std::ifstream file("/proc/" + pid + "/environ", std::ios::binary);
  for (std::string entry; std::getline(file, entry, '\0');) {
    if (entry.rfind(name + "=", 0) == 0) return entry.substr(name.size() + 1);
  }
  return "";
}

/// The processes of `job` on this host with the same parent as this one, by rank.
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

/// The line about hosts that exchange no messages.
std::string unconnected_text(const std::string& program, double seconds) {
  std::vector<std::string> texts;
  for (const auto& [name, address] : own_interfaces())
    texts.push_back(fmt::format("{} {}", name, ::inet_ntoa({address.ip})));
  return fmt::format(
      "{}: no messages between the hosts for {:.0f} s, because of a firewall, or because two hosts "
      "have one address in common. Host {} has {}. Set OMPI_MCA_btl_tcp_if_include to the "
      "interface that connects the hosts.",
      program, seconds, host_name(), listed(texts));
}

}  // namespace

StartWatch::StartWatch(std::string program) : program_(std::move(program)) {
  // Read here, because MPI_Init may move the environment while the thread runs.
  const char* const job = std::getenv(kJob);
  if (job == nullptr) return;
  job_ = job;
  first_ = std::getenv(kRank) == std::string_view("0");
  thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

StartWatch::~StartWatch() = default;

void StartWatch::watch(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  const auto never = [] { return false; };
  woken_.wait_for(lock, stop, kFirstLook, never);
  std::map<int, int> ranks;  // all that were ever seen: one that has gone may have printed
  std::map<int, int> looks;  // by process: successive looks that saw it stopped
  double last = now_seconds(), waited = 0;
  for (; !stop.stop_requested(); woken_.wait_for(lock, stop, kLook, never)) {
    const double now = now_seconds();
    if (now - last > 4 * kLook.count()) looks.clear();  // the whole run may have been stopped
    if (first_ && limit_ > 0) waited += std::min(now - last, 4 * kLook.count());
    last = now;
    if (waited > limit_) print_and_end_all_ranks(unconnected_text(program_, limit_), kExitFailure);
    int stopped = -1, printer = -1;
    ranks.merge(ranks_of(job_));
    for (const auto& [rank, pid] : ranks) {
      const bool now_stopped = Process(pid, 0).condition() == Condition::stopped;
      looks[pid] = now_stopped ? looks[pid] + 1 : 0;
      if (looks[pid] > kLooks && stopped < 0) stopped = rank;
      if (!now_stopped && printer < 0) printer = pid;
    }
    if (stopped < 0) continue;
    const auto gone = [&] { return Process(printer, 0).condition() == Condition::gone; };
    while (printer != getpid() && !gone() && !stop.stop_requested() &&
           now_seconds() < now + kPrint.count())
      woken_.wait_for(lock, stop, kLook, never);
    if (stop.stop_requested()) return;
    if (gone()) end_all_ranks(kExitHang);
    const std::string line = fmt::format(
        "{}: rank {} (pid {}, host {}) was stopped by a signal (SIGSTOP?) during MPI's start. Stop "
        "and continue all ranks together.",
        program_, stopped, ranks.at(stopped), host_name());
    print_and_end_all_ranks(line, kExitHang);
  }
}

}  // namespace lockstep
