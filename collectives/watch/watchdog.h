// Watchdog: a thread in every rank that watches its neighbour and the records of its node. A rank
// that dies, is stopped or hangs then ends the run with one line that names it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "collectives/comm/flight_recorder.h"
#include "collectives/watch/heartbeat.h"
#include "src/base/process.h"

namespace lockstep {

/// One rank is behind: a stopped one, else one that a debugger holds, else the one with the lowest
/// step. Among several it is one that does not wait for others, then the one with the oldest mark.
/// It may stay silent for as long as its phase may take. If all ranks of a node wait, the cause is
/// on another node, whose watchdog has to find it first: the limit is then ten times as long. One
/// thread at a time.
class HangDetector {
 public:
  /// `alone`: the run has one node.
  explicit HangDetector(bool alone) : alone_(alone) {}

  struct Verdict {
    int behind = 0;    ///< index of the rank
    double limit = 0;  ///< seconds of silence that were exceeded
  };
  /// Call it regularly. `elapsed`: watched seconds since the last call. `timeout`: seconds for a
  /// phase without a longer limit.
  std::optional<Verdict> judge(const FlightRecorder& flight_recorder, double timeout,
                               double elapsed);

 private:
  bool alone_;
  int behind_ = -1;           ///< index of the rank that is behind
  std::int64_t mark_ns_ = 0;  ///< of its last mark
  double silent_ = 0;         ///< watched seconds since both changed
};

/// While it lives, one rank of the node prints one line (or table) on stderr and ends all ranks
/// after
///  - the death of a rank of this node that has not called goodbye(), at once;
///  - a signal that has stopped a rank for two watched seconds. A run that is stopped and continued
///    as a whole is not watched in between;
///  - a host that cannot be reached: see Heartbeat and PeerReachability;
///  - silence: see HangDetector.
/// Each rank asks the kernel only about the next rank of the node that has not left, and writes the
/// answer to its record. If another rank has claimed first_failure(), that rank prints, and this
/// process ends after at most 5 s. The watchdogs of other nodes watch the ranks there.
class Watchdog {
 public:
  static constexpr double kDefaultTimeout = 60;  ///< seconds, until set_timeout()

  /// Seconds.
  struct Pace {
    /// Between two looks. Launchers end all ranks a second after a death.
    double look = 0.1;
    double stopped = 2;  ///< until a stopped rank ends the run
    double grace = 5;    ///< for the rank that prints and ends all
  };

  /// `flight_recorder`: all ranks of the node have entered. `alone`: the run has one node.
  /// `program`: begin of each line. `heartbeat`: of one rank of the node; null: the others, or no
  /// heartbeat.
  Watchdog(FlightRecorder& flight_recorder, bool alone, std::string program, const Pace& pace,
           std::unique_ptr<Heartbeat> heartbeat = nullptr);
  /// Calls goodbye() for this rank.
  ~Watchdog();

  /// Seconds for a phase without a longer limit. Any thread.
  void set_timeout(double seconds) { timeout_ = seconds; }

 private:
  void watch(const std::stop_token& stop);
  void check(double elapsed);
  RankRecorder* neighbour();
  [[noreturn]] void end(const std::string& text, int exit_code);
  void report_death(const RankRecorder::State& dead);
  void report_stopped(const RankRecorder::State& stopped);
  void report_hang(const HangDetector::Verdict& verdict);
  void report_unreachable(const Heartbeat::Verdict& verdict);

  FlightRecorder& flight_recorder_;
  const std::string program_;
  const Pace pace_;
  std::atomic<double> timeout_ = kDefaultTimeout;
  HangDetector hang_detector_;
  std::unique_ptr<Heartbeat> heartbeat_;
  std::unique_ptr<Process> process_;  ///< the neighbour's
  const double memory_kills_;         ///< when the watch began
  double stopped_ = 0;                ///< watched seconds in which the neighbour was stopped
  double failing_ = 0;                ///< seconds since another rank claimed first_failure()
  std::jthread thread_;  ///< last: it is joined before the members that it uses are destroyed
};

}  // namespace lockstep
