// Watchdog: a thread in every rank that looks at its neighbour and at the records of its node, so
// that a rank that died, was stopped or hangs ends the run with one named cause instead of leaving
// the others to wait for ever.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "collectives/comm/flight_recorder.h"
#include "collectives/watch/hang_detector.h"
#include "collectives/watch/heartbeat.h"
#include "src/base/process.h"

namespace lockstep {

/// While it lives, one line (or table) on stderr from one rank of the node, and then
/// end_all_ranks(kExitFailure), follow
///  - the death of a rank of this node that has not said goodbye, at once;
///  - a rank that has been watched to be stopped by a signal for two seconds, whatever it does. A
///    run that is stopped and continued as a whole is not watched meanwhile;
///  - a host that cannot be reached: see Heartbeat and Reach;
///  - silence: see HangDetector.
/// Each rank asks the kernel about the next of the node only (cyclically; those that have left are
/// passed over), and all read what it saw in the records. If another rank of the node has claimed
/// first_failure(), it explains and this one only sees to it that its own process is gone 5 s
/// later. Ranks of other nodes are watched there; they end with the run.
class Watchdog {
 public:
  static constexpr double kDefaultTimeout = 60;  ///< seconds, until set_timeout()

  /// Seconds.
  struct Pace {
    /// Between two looks: launchers leave a second between a death and the end of all.
    double look = 0.1;
    double stopped = 2;  ///< that a stopped rank gets to be continued
    double grace = 5;    ///< that the rank which explains gets to end all
  };

  /// `flight_recorder`: seen by all ranks of the node by now. `alone`: there are no other nodes.
  /// `program` stands in front of what is said. `heartbeat`: null on all ranks except one of the
  /// node, and on all if there is none.
  Watchdog(FlightRecorder& flight_recorder, bool alone, std::string program, const Pace& pace,
           std::unique_ptr<Heartbeat> heartbeat = nullptr);
  /// Says goodbye for this rank: from now on its absence means nothing.
  ~Watchdog();

  /// What a phase without a longer limit of its own may take. Any thread.
  void set_timeout(double seconds) { timeout_ = seconds; }

 private:
  void watch(std::stop_token stop);
  void look(double elapsed);
  Record* neighbour();
  [[noreturn]] void end(const std::string& text);
  void report_death(const Record::State& dead);
  void report_stopped(const Record::State& stopped);
  void report_hang(const HangDetector::Verdict& verdict);
  void report_unreachable(const Heartbeat::Verdict& verdict);

  FlightRecorder& flight_recorder_;
  const std::string program_;
  const Pace pace_;
  std::atomic<double> timeout_ = kDefaultTimeout;
  HangDetector hang_detector_;
  std::unique_ptr<Heartbeat> heartbeat_;
  std::unique_ptr<Process> process_;  ///< the neighbour's
  double stopped_ = 0;                ///< seconds that the neighbour was watched to be stopped
  double failing_ = 0;                ///< seconds since another rank began to explain
  std::mutex mutex_;
  std::condition_variable_any woken_;
  std::jthread thread_;  ///< last: it is joined before what it uses goes
};

}  // namespace lockstep
