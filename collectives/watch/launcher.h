// The launcher that started this process, and the way to end it if it cannot end itself.
//
// mpirun of Open MPI 4 orders its daemon on each host to end, and waits for all answers. A host
// that cannot be reached never answers, and mpirun stays until TCP gives up after 15 minutes. This
// follows MPI_Abort, ranks that exit and a lost connection. Two SIGTERM within 5 s are the
// documented way to end mpirun and its daemons without answers (the second Ctrl-C).
#pragma once

namespace lockstep {

struct Launcher {
  int pid = 0;        ///< 0: no known launcher started this process
  bool main = false;  ///< mpirun, not its daemon on this host
  /// A daemon of PRRTE, which may serve other runs too.
  bool shared = false;
};

/// The nearest ancestor that is a launcher of Open MPI. SLURM's does not count, because srun gives
/// up an unreachable node by itself.
Launcher find_launcher();

/// Ends `launcher` after `delay` seconds if it still runs, with two SIGTERM, then SIGKILL. A
/// separate process does so, because the launcher may kill this one first. Does nothing if pid is
/// 0.
void end_later(const Launcher& launcher, double delay);

}  // namespace lockstep
