// LivePage: the page of a run that trains, which a thread writes again and again.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace lockstep {

class LivePage {
 public:
  /// Calls `write` from a thread of its own until the destructor, which waits for a call that runs:
  /// every 10 s, in the first seconds
  /// more often, and never for more than a hundredth of the time. `write` gets the seconds that may
  /// pass until the next call.
  explicit LivePage(std::function<void(double)> write);
  LivePage& operator=(LivePage&&) = delete;

  /// Throws Error if a call has failed since the last rethrow(), or if the thread did not start.
  /// Any thread.
  void rethrow();

 private:
  void run(const std::stop_token& stop);

  const std::function<void(double)> write_;
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::string failure_;  ///< of the last call; empty: none
  std::jthread thread_;  ///< last: it is joined before the members that it uses are destroyed
};

}  // namespace lockstep
