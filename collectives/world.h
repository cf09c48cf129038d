// World: MPI from init to finalize, under the watchdog. Owner: main() owns the one World; Comms are
// made from it. Thread: see World::threads_allowed().
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "collectives/comm/comm.h"
#include "collectives/watch/end_all_ranks.h"

namespace lockstep {

class FlightRecorder;
class NodeMemory;
class Watchdog;

/// MPI from init to finalize, and the watchdog over it all: a rank that dies, is stopped or hangs
/// ends the run whatever the others do. Construct once, first thing in main().
///
/// If the program has initialised MPI itself, World uses a duplicate of MPI_COMM_WORLD and leaves
/// MPI_Finalize to the program, which calls it after ~World. One World lives at a time.
class World {
 public:
  /// Throws Error where this process was meant to be one of several ranks but stands alone (srun
  /// without a matching PMI, mpirun forgotten inside a SLURM allocation, a foreign mpirun): with
  /// the line on the launcher's task 0, with an empty text, which is not printed, on the others.
  /// If World has begun MPI itself, it prints later errors of the start-up before it ends MPI. The
  /// text of such an Error is empty on all ranks.
  /// `program`: its name, in front of what the watchdog says.
  World(int* argc, char*** argv, const std::string& program);
  /// Collective, watched to the end; never throws. Calls MPI_Finalize, or waits for all ranks if
  /// the program has initialised MPI.
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Comm comm() const;
  /// MPI_THREAD_MULTIPLE was granted, to the program's own call if it has initialised MPI.
  bool threads_allowed() const { return threads_allowed_; }
  /// The last acts of the ranks of this node, and which of them prints if several fail
  /// (collectives/comm/flight_recorder.h).
  FlightRecorder& flight_recorder() const { return *flight_recorder_; }
  /// This rank's. Its timeout is Watchdog::kDefaultTimeout until set_timeout().
  Watchdog& watchdog() const { return *watchdog_; }

  /// Calls `body` and returns its exit code. If `body` throws on this rank only (any exception
  /// except an AgreedError), prints it ("program: rank 3 (host): ...") and ends all ranks at once.
  /// The objects around this call are not destroyed before: messages may be under way into their
  /// memory, and their threads may wait for other ranks. A run of one rank throws an Error instead.
  int abort_all_on_error(const std::function<int()>& body);

  /// Collective: ends all ranks with `exit_code` if that keeps mpirun from printing boxes about it
  /// (Open MPI 4); else returns, and MPI_Finalize follows. The caller has printed the error.
  void end_quietly(int exit_code);

 private:
  /// Initialises MPI or joins the program's. Returns the thread level.
  int begin_mpi(int* argc, char*** argv);

  std::string program_;
  bool owns_mpi_ = true;
  std::shared_ptr<const Communicator> communicator_;
  bool threads_allowed_ = false;
  std::unique_ptr<NodeMemory> memory_;
  std::unique_ptr<FlightRecorder> flight_recorder_;
  std::unique_ptr<Watchdog> watchdog_;
};

/// main() of every parallel program: makes the World, calls `body`, turns an Error into one line on
/// stderr from one rank and a non-zero exit on all. An AgreedError is printed by rank 0 and ends in
/// World::end_quietly() or MPI_Finalize; for any other exception see World::abort_all_on_error().
/// If several ranks of a node fail at about the same time, the first to claim
/// FlightRecorder::first_failure() prints. `body` returns the exit code.
int run_main(int argc, char** argv, const char* program, const std::function<int(World&)>& body);

}  // namespace lockstep
