// MPI, as far as the house needs it: World (init .. finalize), Comm (who am I, who else), errors
// that return, agreement. Owner: main() owns the one World; Comms are made from it. Thread: see
// World::threads_allowed().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/base/check.h"
#include "src/base/machine.h"

namespace lockstep {

class NodeMemory;
struct Communicator;
class Record;
class FlightRecorder;
class Watchdog;

/// An Error that every rank throws at the same place for the same reason: rank 0 prints it and MPI
/// is shut down in order.
class AgreedError : public Error {
 public:
  using Error::Error;
};

/// A group of ranks. Cheap to copy. Methods are collective unless marked local, and throw Error
/// where MPI fails. What duplicate() and node() made is freed with its last copy, which is
/// collective too, but not while an exception unwinds: a rank that fails alone must not wait for
/// the others.
class Comm {
 public:
  explicit Comm(std::shared_ptr<const Communicator> communicator);  ///< local

  int rank() const { return rank_; }  ///< local
  int size() const { return size_; }  ///< local
  /// Local; collectives/comm/communicator.h says what that is.
  const Communicator& communicator() const { return *communicator_; }

  Comm duplicate() const;  ///< for another thread or library
  Comm node() const;       ///< the ranks that share memory with this one, in rank order

  void barrier() const;
  std::string broadcast(std::string text, int root = 0) const;
  std::int64_t sum(std::int64_t value) const;
  std::int64_t min(std::int64_t value) const;
  std::int64_t max(std::int64_t value) const;
  /// All texts in rank order on rank 0; empty elsewhere.
  std::vector<std::string> gather(const std::string& text) const;

  // Of any number of elements, as many on each rank.
  /// Each element becomes its sum over the ranks. For integers alone: the order is MPI's own.
  void sum(std::span<std::int64_t> values) const;
  /// Rank `root`'s. Of char, std::int64_t, std::uint64_t, float and double.
  template <class T>
  void broadcast(std::span<T> values, int root = 0) const;
  /// The `values` of all ranks one after the other, in rank order. Of std::uint64_t.
  template <class T>
  std::vector<T> all_gather(std::span<const T> values) const;

  /// Elements of one MPI call: it counts in an int, and more go in several.
  std::size_t largest_message() const { return largest_message_; }  ///< local
  /// The same ranks and the same communicator with another: tests have no 2^31 elements. Local
  Comm with_largest_message(std::size_t elements) const;

 private:
  std::shared_ptr<const Communicator> communicator_;
  int rank_ = 0, size_ = 1;
  std::size_t largest_message_ = std::size_t{1} << 30;
};

/// MPI from init to finalize, and the watchdog over it all: a rank that dies, is stopped or hangs
/// ends the run whatever the others do. Construct once, first thing in main().
///
/// If the program has initialised MPI itself, World uses a duplicate of MPI_COMM_WORLD and leaves
/// MPI_Finalize to the program, which calls it after ~World. One World lives at a time.
class World {
 public:
  /// Throws Error where this process was meant to be one of several ranks but stands alone (srun
  /// without a matching PMI, mpirun forgotten inside a SLURM allocation, a foreign mpirun): with
  /// the line on the launcher's task 0, with an empty text, which nobody prints, on the others.
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
  /// What the ranks of this node last did, and who of them speaks when several fail
  /// (collectives/comm/flight_recorder.h).
  FlightRecorder& flight_recorder() const { return *flight_recorder_; }
  /// Of this rank; has Watchdog::kUsualTimeout until it is told another.
  Watchdog& watchdog() const { return *watchdog_; }

  /// Calls `body` and returns its exit code. What it throws on this rank alone (anything but an
  /// AgreedError) is said ("program: rank 3 (host): ...") and ends all ranks at once, while what
  /// stands around this call still lives: messages may be under way into its memory, and its
  /// threads may wait for others. A run of one rank waits for nobody: there it is thrown on as an
  /// Error.
  int or_end_all(const std::function<int()>& body);

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

/// Runs `body` on every rank, then compares notes: if it threw anywhere, all ranks throw the
/// AgreedError of the lowest rank that failed, so that everybody leaves together. `body` holds no
/// collective after a place where one rank alone may throw. The line of rank 0 stays as it is; that
/// of another begins with "rank 3 (host): ". If `comm` is only a part of the run, the exception is
/// an Error and no AgreedError: the other ranks do not know of it, and run_main() ends them.
void agree(const Comm& comm, const std::function<void()>& body);

/// Compares `text` (lines of "key = value") with rank 0's. Where it differs, all ranks throw the
/// same AgreedError, which names the lowest rank that differs, the first line that does, and both
/// values. `what` is the heading ("command lines"), `cure` what the user can do.
void expect_same(
    const Comm& comm, const std::string& what, const std::string& text,
    const std::string& cure = "start all ranks with the same build, options and files");

/// The cure of expect_same() for arguments of a program.
inline constexpr const char* kSameArguments = "pass the same on all ranks";

/// Ends all ranks of the run from whichever thread of whichever rank, without waiting for anybody:
/// flushes what was printed, calls MPI_Abort, and leaves the process by itself if that takes more
/// than 3 s. Works without MPI too.
[[noreturn]] void end_all_ranks(int exit_code);

/// The same, after one line (or table) on stderr. The 3 s include it: nobody may be reading.
[[noreturn]] void say_and_end_all_ranks(const std::string& line, int exit_code);

/// main() of every parallel program: makes the World, calls `body`, turns an Error into one line on
/// stderr from one rank and a non-zero exit on all. An AgreedError is printed by rank 0 and ends in
/// World::end_quietly() or MPI_Finalize; for any other exception see World::or_end_all(). Where
/// several ranks of a node fail at about the same time, the first to claim
/// FlightRecorder::first_failure() prints. `body` returns the exit code.
int run_main(int argc, char** argv, const char* program, const std::function<int(World&)>& body);

}  // namespace lockstep
