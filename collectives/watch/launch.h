// Was this program started as many ranks as the user meant? A launcher and an MPI that do not speak
// the same start-up protocol give N lonely processes of one rank each, which would train N models
// and overwrite each other's files.
#pragma once

#include <functional>
#include <string>

namespace lockstep {

/// Reads an environment variable; null if it is not set.
using Environment = std::function<const char*(const char* name)>;

/// The line that says what is wrong with the way in which this process was started, with the cure;
/// empty if nothing is. `size` is that of MPI_COMM_WORLD, or 0 before MPI_Init: what can be known
/// then must be said then, because an MPI that misses its launcher may end the process in MPI_Init
/// with a page of its own.
std::string launch_problem(const Environment& environment, int size);

/// Opens /dev/null as each of standard input, output and error that is closed. The next file opened
/// would take its number, and lines would go into MPI's own pipes.
void hold_standard_files();

/// While it lives, Open MPI 4 may say why it cannot start, though it is told to be quiet
/// (orte_execute_quiet): that is meant for its boxes after a rank's own words. Lives around
/// MPI_Init. Takes the variable from the environment, so that no other thread may read that while
/// it is made.
class WordsOfStart {
 public:
  WordsOfStart();
  ~WordsOfStart();
  WordsOfStart(const WordsOfStart&) = delete;
  WordsOfStart& operator=(const WordsOfStart&) = delete;

 private:
  std::string quiet_;  ///< what the variable said; empty: it was not set
};

/// Keeps Open MPI 4 from adding boxes to an MPI_Abort that follows. mpirun prints two boxes after a
/// rank that exits with a non-zero code, and none after such an MPI_Abort. False, without effect:
/// another MPI or launcher, or no launcher.
bool silence_abort(const Environment& environment);

/// Whether some launcher offers this process a way to find the other ranks.
bool has_launcher(const Environment& environment);

/// Whether this process is the one of its launcher's tasks that prints errors: task 0, or each
/// process if no variable numbers them.
bool is_first_task(const Environment& environment);

}  // namespace lockstep
