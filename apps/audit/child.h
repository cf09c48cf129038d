// A program that verify_run starts and waits for.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/base/signals.h"

namespace lockstep {

/// Runs `words` with stdout and stderr in `output`, in a process group of its own. The program
/// gets SIGTERM if this process ends, even by SIGKILL, and for the first of `signals`. A second
/// one kills its group. Returns the exit code. Throws Error if it cannot be started, or if a signal
/// ended it or this program. The thread that calls it outlives the program.
int run_program(const std::vector<std::string>& words, const std::filesystem::path& output,
                const Signals& signals);

}  // namespace lockstep
