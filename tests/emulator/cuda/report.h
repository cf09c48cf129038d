// Settings, reports and random choices, which all parts of the emulator share.
//
// A report has a kind, such as "race of streams [Update] / [copy]", and a detail. Only the first of
// each kind is printed at once, because one mistake may appear in a million threads.
//
// All state is allocated and never freed, because static objects of the program may call CUDA while
// the process ends. For the same reason the end is a destructor function of the lowest priority. It
// runs after the static objects and exit functions of the program, and so after MPI_Finalize. It
// prints all counts. If there was a report, it ends the process by _exit, because nothing else can
// change the exit code so late.
#pragma once

#include <cstdint>
#include <string>

namespace emulator {

enum class Order { late, eager, random, thread };

/// The environment, see emulator.h. A wrong value stops the process.
struct Settings {
  Order order;
  std::uint64_t seed;
  int devices;
  std::string fail;         ///< a function, or "kernel"; empty: nothing fails
  std::uint64_t fail_call;  ///< the number of its call, from 1
};
const Settings& settings();

/// Writes one line to stderr. Safe in a signal handler.
void print(const char* text);

/// Prints the reason and ends the process with kExitReported.
[[noreturn]] void stop(const std::string& reason);

}  // namespace emulator
