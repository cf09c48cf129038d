// Who makes the others wait.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "collectives/comm/comm.h"

namespace lockstep {

/// Of some steps: the run would have taken so much less, had this rank come to the sums as early as
/// the one before it.
struct Straggler {
  int rank = 0;
  std::string host = {};
  std::int64_t steps = 0;
  double seconds = 0;  ///< of all these steps
};

/// What is less of their time is no straggler: ranks are never quite alike.
inline constexpr double kStragglerShare = 0.1;

/// `waited_ns`: by rank, what it spent waiting for sums in steps that took `seconds` in all. An
/// all-reduce makes every rank take as long as the last to come, so that its own time tells
/// nothing; but whoever is last hardly waits. Only rank and seconds of the answer are set; none
/// where nobody is alone in it.
std::optional<Straggler> find_straggler(std::span<const std::uint64_t> waited_ns, double seconds);

/// Looks for a straggler again and again, once enough steps are done. One thread.
class StragglerWatch {
 public:
  explicit StragglerWatch(Comm comm) : comm_(std::move(comm)) {}

  /// Collective, after step `done`. `exposed` and `trained`: seconds of this start of the run that
  /// the rank has waited for sums, and that its steps took. None also if there are too few steps.
  std::optional<Straggler> look(std::int64_t done, double exposed, double trained);

 private:
  struct Look {
    std::int64_t step = 0;
    double exposed = 0, trained = 0;
  };
  Comm comm_;
  Look last_;
};

}  // namespace lockstep
