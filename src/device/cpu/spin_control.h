// SpinControl: lets the idle threads of an OpenMP team sleep while other programs want their cores.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

namespace lockstep {

/// Decides from the delays of a team's threads whether their cores are contended. A delay is time
/// in which a thread is ready to run but has no core. Contention begins after two long delays in a
/// row and ends after a second without one.
class ContentionJudge {
 public:
  static constexpr double kWindow = 0.05;  ///< seconds between two looks

  /// `share`: the longest delay of a thread since the last look, divided by the time since then.
  /// Returns whether the cores are contended.
  bool contended(double share);

 private:
  bool contended_ = false;
  int against_ = 0;  ///< looks in a row that contradict `contended_`
};

/// Idle threads of an OpenMP team spin for milliseconds before they sleep. That is right on idle
/// cores, because a sleeping thread wakes up late: a step takes twice as long without it. On
/// contended cores spinning is fatal, because it takes the time that the rest of the team needs.
///
/// libgomp fixes the number of spins when it is loaded, except for one documented rule
/// (GOMP_SPINCOUNT): it spins 100 times instead of 300,000 times while the process has more OpenMP
/// threads than cores. While the cores are contended, this class therefore keeps a second team of
/// sleeping threads. It works on its own thread, 20 times a second, and changes no result. Without
/// /proc/PID/task/TID/schedstat, or with GOMP_SPINCOUNT or OMP_WAIT_POLICY set, it does nothing.
class SpinControl {
 public:
  /// `team`: ids of the team's threads (gettid).
  explicit SpinControl(std::vector<int> team);

  /// The cores are contended, and idle threads sleep. Any thread.
  bool sleeps() const { return sleeps_; }

 private:
  struct Delay {
    int thread;           ///< its id
    std::int64_t ns = 0;  ///< in all, when it was last read
  };
  void watch(const std::stop_token& stop);
  double longest_delay();
  void sleep(bool on);

  std::vector<Delay> team_;
  std::atomic<bool> sleeps_ = false;
  std::mutex mutex_;
  std::condition_variable_any woken_;
  std::jthread thread_;  ///< last: it is joined before the members that it uses are destroyed
};

}  // namespace lockstep
