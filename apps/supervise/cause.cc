#include "apps/supervise/cause.h"

#include <fmt/format.h>

#include <csignal>
#include <cstring>

#include "src/base/run_end.h"

namespace lockstep {
namespace {

constexpr int kSignal = 128;  ///< shells and mpirun add it to the number of a signal

}  // namespace

Cause cause_of(const End& end) {
  const RunEnd known = end_of(end.code);
  if (known.code == end.code) return {known.starts_again, std::string(known.what)};
  const int signal = end.code - kSignal;
  if (signal == SIGPIPE && end.launcher) return {false, "the reader of the output has ended"};
  if (signal > 0 && signal < NSIG && sigabbrev_np(signal) != nullptr) {
    return {true, fmt::format("{} was killed by SIG{}", end.launcher ? "mpirun" : "a rank",
                              sigabbrev_np(signal))};
  }
  return {true, fmt::format("the ranks failed with exit code {}", end.code)};
}

}  // namespace lockstep
