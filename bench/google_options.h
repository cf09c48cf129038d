// The command line of programs that use Google Benchmark. A wrong option ends them with exit code 2
// and one line, like all other programs. --json prints JSON.
#pragma once

#include <functional>
#include <string_view>

namespace lockstep {

/// main() of a program of one process: calls `add`, which registers the benchmarks, and runs those
/// that the command line selects. Returns the exit code.
int run_google_benchmarks(int argc, char** argv, std::string_view program,
                          const std::function<void()>& add);

}  // namespace lockstep
