#include "src/base/run_end.h"

#include "src/base/error.h"

namespace lockstep {
namespace {

// A new start is worth its time only if the cause may be gone, such as a lost host. Wrong options,
// damaged data and a full disk would end the run again. States in memory stay as long as they can
// help a later start, also one by a person.
constexpr RunEnd kEnds[] = {
    // code, starts again, keeps states
    {kExitSuccess, false, false, ""},
    {kExitFailure, true, true, "the ranks failed"},
    {kExitUsage, false, true, "the options are wrong"},
    {kExitData, false, true, "the data cannot be used"},
    {kExitDiverged, false, false,
     "the model diverged"},  // from a state the run would diverge again
    {kExitLost, true, true, "a rank or a host was lost"},
    {kExitHang, true, true, "the ranks made no progress"},
    {kExitInUse, false, true, "the folder or a file is in use"},
    {kExitStorage, false, true, "a file cannot be written"},
    {kExitRequeue, false, true, ""},  // with a checkpoint of all steps, or before the first one
    {126, false, true, "the program cannot be executed"},  // codes of shells
    {127, false, true, "the program was not found"},
    {205, true, true, "mpirun lost its connection to a host"},  // of Open MPI 4
};

}  // namespace

RunEnd end_of(int code) {
  for (const RunEnd& end : kEnds)
    if (end.code == code) return end;
  return {-1, true, true, ""};
}

}  // namespace lockstep
