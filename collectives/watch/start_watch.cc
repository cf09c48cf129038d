#include "collectives/watch/start_watch.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
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
#include "src/base/stopped_within.h"
#include "src/base/text.h"

namespace lockstep {
namespace {

// Seconds.
constexpr double kFirstLook = 1, kLook = 0.25;
constexpr double kPrint = 5;      ///< for the rank that prints
constexpr double kMessages = 45;  ///< for the first messages between hosts

constexpr int kLooks = 8;  ///< in a row that see a rank stopped: two seconds
constexpr const char* kJob = "PMIX_NAMESPACE";
constexpr const char* kRank = "PMIX_RANK";

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
    const std::string name = entry.path().filename();
    const int pid = std::atoi(name.c_str());
    if (pid > 0 && parent_of(pid) == getppid() && variable_of(name, kJob) == job)
      pids[std::atoi(variable_of(name, kRank).c_str())] = pid;
  }
  return pids;
}

/// The line about hosts that exchange no messages.
std::string unconnected_text(const std::string& program) {
  std::vector<std::string> texts;
  for (const auto& [name, address] : own_interfaces())
    texts.push_back(fmt::format("{} {}", name, ::inet_ntoa({address.ip})));
  return fmt::format(
      "{}: no messages between the hosts for {:.0f} s, because of a firewall, or because two hosts "
      "have one address in common. Host {} has {}. Set OMPI_MCA_btl_tcp_if_include to the "
      "interface that connects the hosts.",
      program, kMessages, host_name(), listed(texts));
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

void StartWatch::watch(const std::stop_token& stop) {
  if (stopped_within(stop, kFirstLook)) return;
  std::map<int, int> ranks;  // all that were ever seen: one that has gone may have printed
  std::map<int, int> looks;  // by process: successive looks that saw it stopped
  double last = now_seconds(), waited = 0;
  do {
    const double now = now_seconds();
    if (now - last > 4 * kLook) looks.clear();  // the whole run may have been stopped
    // Time in which the run was stopped as a whole is not a wait for messages.
    if (first_ && connects_) waited += std::min(now - last, 4 * kLook);
    last = now;
    if (waited > kMessages) print_and_end_all_ranks(unconnected_text(program_), kExitFailure);
    int stopped = -1, printer = -1;
    ranks.merge(ranks_of(job_));
    for (const auto& [rank, pid] : ranks) {
      const bool now_stopped = Process(pid, 0).condition() == Condition::stopped;
      looks[pid] = now_stopped ? looks[pid] + 1 : 0;
      if (looks[pid] > kLooks && stopped < 0) stopped = rank;
      if (!now_stopped && printer < 0) printer = pid;
    }
    // All ranks of the host see the same. The first one that is not stopped prints. The others wait
    // until it has ended, so that the line appears once. If it does not end within kPrint, each
    // prints.
    if (stopped < 0) continue;
    const auto gone = [&] { return Process(printer, 0).condition() == Condition::gone; };
    while (printer != getpid() && !gone() && now_seconds() < now + kPrint)
      if (stopped_within(stop, kLook)) return;
    if (gone()) end_all_ranks(kExitHang);
    const std::string line = fmt::format(
        "{}: rank {} (pid {}, host {}) was stopped by a signal (SIGSTOP?) during MPI's start. Stop "
        "and continue all ranks together.",
        program_, stopped, ranks.at(stopped), host_name());
    print_and_end_all_ranks(line, kExitHang);
  } while (!stopped_within(stop, kLook));
}

}  // namespace lockstep
