// All ways to the end begin with exit_soon(). Each later step may block: the output if its reader
// is gone, a mutex of another thread, MPI_Abort if a host cannot be reached. _Exit() runs no
// destructors, because other threads still use the objects.
#include "collectives/watch/end_all_ranks.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

#include "collectives/comm/communicator.h"
#include "collectives/watch/launch.h"
#include "src/base/text.h"

namespace lockstep {
namespace {

/// Ends this process after 3 s, whatever it waits for.
void exit_soon(int exit_code) {
  std::thread([exit_code] {
    std::this_thread::sleep_for(std::chrono::seconds(3));
    std::_Exit(exit_code);
  }).detach();
}

/// The one of OnFailure.
std::function<void(const std::string&)> failure_record;
std::mutex failure_mutex;

void print_line(const std::string& line) {
  // MPI or a progress bar may have printed half a line.
  print_error(fmt::format("{}{}\n", has_launcher(::getenv) ? "\n" : "", line));
  std::fflush(nullptr);
  const std::lock_guard lock(failure_mutex);
  if (failure_record) failure_record(line);
}

/// The launcher has this long to end the ranks of all hosts by itself.
constexpr double kLauncherSeconds = 5;

[[noreturn]] void abort_all(int exit_code) {
  std::fflush(nullptr);
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  silence_abort(::getenv);
  if (initialized && !finalized) {
    const Launcher launcher = find_launcher();
    // If a host is cut off, mpirun waits for its daemon there, also after MPI_Abort (launch.h).
    if (!launcher.shared && !on_one_host(::getenv)) end_later(launcher, kLauncherSeconds);
    MPI_Abort(MPI_COMM_WORLD, exit_code);
  }
  std::_Exit(exit_code);
}

}  // namespace

OnFailure::OnFailure(std::function<void(const std::string& line)> record) {
  const std::lock_guard lock(failure_mutex);
  failure_record = std::move(record);
}

OnFailure::~OnFailure() {
  const std::lock_guard lock(failure_mutex);
  failure_record = nullptr;
}

void end_all_ranks(int exit_code) {
  exit_soon(exit_code);
  abort_all(exit_code);
}

void print_and_end_all_ranks(const std::string& line, int exit_code) {
  exit_soon(exit_code);
  print_line(line);
  abort_all(exit_code);
}

void print_and_exit(const std::string& line, int exit_code) {
  exit_soon(exit_code);
  print_line(line);
  for (;;)
    std::this_thread::sleep_for(std::chrono::seconds(3));  // until the launcher's output is read
}

}  // namespace lockstep
