// The straggler: the rank that delays the others.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/comm/comm.h"
#include "collectives/watch/host_watch.h"

namespace lockstep {

struct Straggler {
  int rank = 0;
  std::string host = {};
  std::int64_t steps = 0;
  double seconds = 0;  ///< delay of all these steps: its arrival minus that of the rank before it
};

/// `exposed`: by rank, seconds of exposed communication in steps that took `seconds` in all. The
/// last rank to arrive at an all-reduce hardly waits, so it is the rank with the least. Sets only
/// rank and seconds. None: no rank is later than all others by a tenth of `seconds`.
std::optional<Straggler> find_straggler(std::span<const double> exposed, double seconds);

/// Finds the straggler at each report, and what the hosts use. One thread.
class StragglerWatch {
 public:
  explicit StragglerWatch(Comm comm)
      : comm_(std::move(comm)), host_watch_(comm_) {}  ///< collective

  /// Collective, after step `done`. `exposed` and `trained`: seconds of exposed communication and
  /// of training since this start of the run. None also if there are fewer than 10 new steps.
  std::optional<Straggler> find(std::int64_t done, double exposed, double trained);
  /// HostWatch::hosts() of the last find(), which has sent it along.
  const std::vector<HostUse>& hosts() const { return hosts_; }

 private:
  struct Times {
    std::int64_t step = 0;
    double exposed = 0, trained = 0;
  };
  Comm comm_;
  Times last_;
  HostWatch host_watch_;
  std::vector<HostUse> hosts_;
};

/// The stragglers that a person should see. One thread.
class StragglerLines {
 public:
  /// `now`: seconds since training began. True at most once a minute for a rank, and only if it has
  /// delayed the others by more than a twentieth of the time since then.
  bool shows(const Straggler& late, double now);

 private:
  std::map<int, std::pair<double, double>> ranks_;  ///< time of the last line, and delay since then
};

}  // namespace lockstep
