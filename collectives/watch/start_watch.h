// StartWatch: watches over MPI_Init, where the ranks cannot see each other's records yet.
#pragma once

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

namespace lockstep {

/// While it lives, a rank of this host that has been watched to be stopped by a signal for two
/// seconds ends the run: the launcher waits for it for ever. Said by the lowest rank that is not
/// stopped, with `program` in front; by another only if that one is still there 5 s later. Ranks
/// are known as processes of the same parent and the same PMIx job; where the launcher speaks no
/// PMIx, nothing is watched. Looks for the first time after a second, so that it costs nothing
/// where MPI_Init is quick. A rank that dies is the launcher's to tell.
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
  std::jthread thread_;  ///< last: it is joined before what it uses goes
};

}  // namespace lockstep
