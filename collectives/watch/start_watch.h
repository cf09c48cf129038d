// StartWatch: watches the ranks in MPI_Init, before they see each other's records.
#pragma once

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

namespace lockstep {

/// While it lives, it ends the run if a signal has stopped a rank of this host for two seconds,
/// because the launcher would wait for ever. The lowest rank that is not stopped prints a line that
/// begins with `program`. Another rank prints it if that rank still runs 5 s later. Ranks are
/// processes with the same parent and the same PMIx job; without PMIx nothing is watched. The first
/// look is after a second, so that a quick MPI_Init costs nothing. The launcher reports a rank that
/// dies.
class StartWatch {
 public:
  explicit StartWatch(std::string program);
  ~StartWatch();

 private:
  void watch(const std::stop_token& stop);

  const std::string program_;
  std::string job_;
  std::mutex mutex_;
  std::condition_variable_any woken_;
  std::jthread thread_;  ///< last: it is joined before the members that it uses are destroyed
};

}  // namespace lockstep
