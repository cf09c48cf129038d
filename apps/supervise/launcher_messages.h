// LauncherMessages: what mpirun itself prints, apart from the output of the ranks. Its boxes about
// a rank that failed would follow each error of the program. Its reasons for not starting the ranks
// must reach the user.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace lockstep {

/// The first 8 lines of the first box of `messages` that is not about a rank that has ended; empty:
/// there is none. A box stands between two lines of dashes.
std::string reason_of_launcher(const std::string& messages);

/// Not copied. One thread.
class LauncherMessages {
 public:
  LauncherMessages() = default;
  ~LauncherMessages();
  LauncherMessages& operator=(LauncherMessages&&) = delete;

  /// Before a start: directs the messages of Open MPI 4's mpirun to a file in memory instead of
  /// making it quiet. Changes its environment and command line, except if the user has set
  /// orte_execute_quiet. Open MPI 5 prints its reasons in any case.
  void collect(std::map<std::string, std::string>& environment, std::vector<std::string>& words);
  /// reason_of_launcher() for the messages since collect() or the last call.
  std::string take_reason();

 private:
  int file_ = -1;  ///< a descriptor; -1: there is none
};

}  // namespace lockstep
