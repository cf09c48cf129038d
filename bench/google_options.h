// The command lines of the programs that use Google Benchmark: a wrong option ends them with exit
// code 2 and one line, as it ends all others.
#pragma once

#include <functional>
#include <string_view>

namespace lockstep {

/// main() of a program of one process: calls `add`, which registers the benchmarks, and runs those
/// that the command line asks for. Returns the exit code.
int run_google_benchmarks(int argc, char** argv, std::string_view program,
                          const std::function<void()>& add);

}  // namespace lockstep
