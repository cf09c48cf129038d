#include "apps/supervise/cause.h"

#include <fmt/format.h>

#include <csignal>
#include <cstring>

#include "src/base/error.h"

namespace lockstep {
namespace {

constexpr int kSignal = 128;  ///< shells and mpirun add it to the number of a signal

struct Row {
  int code;
  bool restarts;
  const char* what;
};

constexpr Row kRows[] = {
    {kExitSuccess, false, ""},
    {kExitFailure, true, "the ranks failed"},
    {kExitUsage, false, "the options are wrong"},
    {kExitData, false, "the data cannot be used"},
    {kExitDiverged, false, "the model diverged"},
    {kExitLost, true, "a rank or a host was lost"},
    {kExitHang, true, "the ranks made no progress"},
    {kExitInUse, false, "the folder or a file is in use"},
    {kExitStorage, false, "a file cannot be written"},
    {kExitRequeue, false, ""},
    {205, true, "mpirun lost its connection to a host"},  // of Open MPI 4
    {126, false, "the program cannot be executed"},       // codes of shells
    {127, false, "the program was not found"},
};

}  // namespace

Cause cause_of(const End& end) {
  for (const Row& row : kRows)
    if (row.code == end.code) return {row.restarts, row.what};
  const int signal = end.code - kSignal;
  if (signal > 0 && signal < NSIG && sigabbrev_np(signal) != nullptr) {
    return {true, fmt::format("{} was killed by SIG{}", end.launcher ? "mpirun" : "a rank",
                              sigabbrev_np(signal))};
  }
  return {true, fmt::format("the ranks failed with exit code {}", end.code)};
}

}  // namespace lockstep
