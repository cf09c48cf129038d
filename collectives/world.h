// World: MPI from init to finalize, under the watchdog. main() owns the one World and makes Comms
// from it. For threads see World::threads_allowed().
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "collectives/comm/comm.h"
#include "collectives/watch/end_all_ranks.h"
#include "collectives/watch/launch.h"

namespace lockstep {

class FlightRecorder;
class NodeMemory;
class Watchdog;

/// MPI from init to finalize, and the watchdog: a rank that dies, is stopped or hangs ends the run.
/// Construct it once, at the beginning of main().
///
/// If the program has initialised MPI itself, World uses a duplicate of MPI_COMM_WORLD and leaves
/// MPI_Finalize to the program, which calls it after ~World. One World lives at a time.
class World {
 public:
  /// Throws Error if this process should be one of several ranks but finds no others: srun without
  /// a matching PMI, no mpirun inside a SLURM allocation, or the mpirun of another MPI. The text is
  /// empty, and not printed, on all tasks of the launcher except task 0. If World has initialised
  /// MPI, it prints later errors of the start-up before it ends MPI; their text is then empty.
  /// `program`: the name at the beginning of the watchdog's lines.
  World(int* argc, char*** argv, const std::string& program, Start start = Start::ranks);
  /// Collective, under the watchdog to the end; never throws. Calls MPI_Finalize, or waits for all
  /// ranks if the program has initialised MPI.
  ~World();
  World& operator=(World&&) = delete;  ///< neither copied nor moved

  Comm comm() const;
  /// MPI_THREAD_MULTIPLE was granted.
  bool threads_allowed() const { return threads_allowed_; }
  /// The last actions of the ranks of this node (collectives/comm/flight_recorder.h).
  FlightRecorder& flight_recorder() const { return *flight_recorder_; }
  Watchdog& watchdog() const { return *watchdog_; }

  /// Calls `body` and returns its exit code. If `body` throws on this rank only (any exception
  /// except an AgreedError), prints it ("program: rank 3 (host): ...") and ends all ranks at once.
  /// The objects around this call are not destroyed before: messages may be under way into their
  /// memory, and their threads may wait for other ranks. With one rank it throws an Error instead.
  int abort_all_on_error(const std::function<int()>& body);

  /// Ends all ranks with `exit_code` if that prevents the boxes of mpirun (Open MPI 4); else
  /// returns. The caller has printed the error. Collective.
  void end_quietly(int exit_code);

 private:
  /// Initialises MPI, or uses the program's. Returns the thread level.
  int begin_mpi(int* argc, char*** argv);
  void check_launch(int size) const;

  std::string program_;
  Start start_;
  bool owns_mpi_ = true;
  std::shared_ptr<const Communicator> communicator_;
  bool threads_allowed_ = false;
  std::unique_ptr<NodeMemory> memory_;
  std::unique_ptr<FlightRecorder> flight_recorder_;
  std::unique_ptr<Watchdog> watchdog_;
};

/// main() of every parallel program: makes the World and calls `body`, which returns the exit code.
/// Turns an Error into one line on stderr from one rank, and a non-zero exit code on all. Rank 0
/// prints an AgreedError. For other exceptions see World::abort_all_on_error(). If several ranks of
/// a node fail at the same time, the first in FlightRecorder::first_failure() prints.
int run_main(int argc, char** argv, const char* program, const std::function<int(World&)>& body,
             Start start = Start::ranks);

}  // namespace lockstep
