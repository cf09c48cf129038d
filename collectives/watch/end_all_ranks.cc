#include "collectives/watch/end_all_ranks.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "collectives/comm/communicator.h"
#include "collectives/watch/launch.h"

namespace lockstep {
namespace {

/// Whatever this process still waits for, 3 s from now it is gone.
void leave_soon(int exit_code) {
  std::thread([exit_code] {
    std::this_thread::sleep_for(std::chrono::seconds(3));
    std::_Exit(exit_code);
  }).detach();
}

[[noreturn]] void abort_all(int exit_code) {
  std::fflush(nullptr);
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  silence_abort(::getenv);
  if (initialized && !finalized) MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

}  // namespace

void print_error(const std::string& text) { std::fputs(text.c_str(), stderr); }

void end_all_ranks(int exit_code) {
  leave_soon(exit_code);
  abort_all(exit_code);
}

void print_and_end_all_ranks(const std::string& line, int exit_code) {
  leave_soon(exit_code);
  // A bar or half a remark of the MPI's may stand there, the launcher's boxes follow.
  print_error(fmt::format("{}{}\n", has_launcher(::getenv) ? "\n" : "", line));
  abort_all(exit_code);
}

}  // namespace lockstep
