// main() of benchmarks that are one process without MPI.
#pragma once

#include <cstdio>

#include "src/base/check.h"

namespace lockstep {

/// Returns what run() returns. An Error becomes one line on stderr and its exit code.
template <class Run>
int run_alone(const char* program, const Run& run) {
  try {
    return run();
  } catch (const Error& error) {
    std::fputs(fmt::format("{}: {}\n", program, error.what()).c_str(), stderr);
    return error.exit_code();
  }
}

}  // namespace lockstep
