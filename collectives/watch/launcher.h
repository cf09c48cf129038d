// The launcher that started this process, and how to end it when it cannot end itself.
//
// mpirun of Open MPI 4 orders its daemon on each host to end, and waits for all answers. The daemon
// of a host that cannot be reached never answers: mpirun stays until TCP gives up, after 15
// minutes. MPI_Abort, ranks that exit and a lost connection all lead there. Two SIGTERM within 5 s
// are the documented way (the second Ctrl-C) to end it without answers, and its daemon alike.
#pragma once

namespace lockstep {

struct Launcher {
  int pid = 0;        ///< 0: this process was not started by a launcher that is known here
  bool main = false;  ///< mpirun itself, not its daemon on this host
};

/// The nearest ancestor that is a launcher of Open MPI. That of SLURM is none: srun gives up an
/// unreachable node by itself.
Launcher find_launcher();

/// Ends `launcher` after `delay` seconds if it is still there: two SIGTERM, then SIGKILL. A process
/// of its own does so, because the launcher may kill this one first. Does nothing if pid is 0.
void end_later(const Launcher& launcher, double delay);

}  // namespace lockstep
