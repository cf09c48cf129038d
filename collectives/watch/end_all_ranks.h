// The end of a run on the initiative of one rank.
#pragma once

#include <string>

namespace lockstep {

/// Ends all ranks of the run from any thread of any rank, without waiting for another rank. Flushes
/// what was printed and calls MPI_Abort. Leaves the process by itself if that takes more than 3 s.
/// Works without MPI too.
[[noreturn]] void end_all_ranks(int exit_code);

/// The same, after one line (or table) on stderr. The 3 s include printing, because the reader may
/// be gone.
[[noreturn]] void print_and_end_all_ranks(const std::string& line, int exit_code);

/// Prints `text` to stderr. A line that cannot be written changes no exit code (fmt::print would
/// throw).
void print_error(const std::string& text);

}  // namespace lockstep
