// StateMemory: recent states of a run in the memory of each host. They outlive the ranks, so that
// the same command loses few steps, whatever ended them.
//
// Each host has the folder /dev/shm/lockstep-run-USER-RUN-HOST, where RUN depends on the run's id
// and on its folder, because a copy of the folder is another run. It contains
//   states   copies of the state after two steps (apps/step/snapshot.h)
//   run      the path of the run's folder; locked while the ranks live
//   device   the number of that folder's device
//   step.ID  for lockstep_run, which passes ID in LOCKSTEP_SUPERVISOR: the number of the last
//            finished step as 15 digits and a line end, then the path of the run's folder
// and after a new start the state that it resumes from, as an ordinary checkpoint. The run removes
// the folder at an end after which a state is of no use (src/base/run_end.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "collectives/comm/comm.h"
#include "net/checkpoint.h"

namespace lockstep {

/// Names the states of a run on a host.
struct StatePlace {
  std::string run;              ///< its id
  std::filesystem::path place;  ///< its folder
  std::string host;
  bool first = false;                       ///< this rank is the first of `host`
  std::filesystem::path root = "/dev/shm";  ///< in memory

  std::filesystem::path folder() const;
};

/// The folder of this host. All calls are local, and do nothing on ranks that are not the first of
/// their host. Thread: the computing one.
class StateMemory {
 public:
  explicit StateMemory(const StatePlace& place);
  ~StateMemory();                                  ///< removes the folder if it contains no state
  StateMemory& operator=(StateMemory&&) = delete;  ///< neither copied nor moved

  bool first() const { return place_.first; }
  /// Whether each host can keep states, as open_state_memory() found.
  bool everywhere() const { return everywhere_; }
  void everywhere(bool open) { everywhere_ = open; }
  const std::filesystem::path& folder() const { return folder_; }
  /// For the Snapshot.
  std::filesystem::path file() const { return folder_ / "states"; }

  /// Claims the folder, which only this user may enter, and removes file(). Throws Error if that is
  /// impossible: the path is another user's or a link, or a process uses it.
  void open();
  /// Training begins after `step`. Throws Error if memory is short.
  void begin(std::int64_t step);
  /// A Snapshot in file() was sealed: the state of the former start is needed no more.
  void sealed();
  /// Steps done. A store into memory; nothing before begin().
  void finished(std::int64_t step) const;
  /// No state is of use any more: removes the folder.
  void remove();

 private:
  StatePlace place_;
  std::filesystem::path folder_;
  bool has_former_ = false;  ///< a state of the former start
  bool has_state_ = false;   ///< of this start
  bool everywhere_ = false;
  int lock_ = -1;         ///< descriptor of the file `run`
  void* step_ = nullptr;  ///< the mapped file; null: there is none
};

/// Collective. The StateMemory of the run `run` in the folder `place`, opened. If a host cannot
/// keep one, everywhere() is false, and `problem` has the reason on rank 0; the former state stays
/// until remove().
std::unique_ptr<StateMemory> open_state_memory(const Comm& comm, const std::string& run,
                                               const std::string& place, std::string& problem);

/// The newest state on any host.
struct FoundState {
  std::filesystem::path file;         ///< on rank 0's host; empty: there is none
  std::vector<std::string> warnings;  ///< on rank 0: states that were skipped, one line each
};

/// Collective. Finds the newest whole state of the run after step `after`; place.run and `after`
/// count on rank 0. The first rank of each host turns its newest one into a checkpoint. If rank 0's
/// host lacks it, copies it there. Throws Error if memory is short for that: the state stays.
FoundState find_state(const Comm& comm, StatePlace place, std::int64_t after);

/// Removes the folders in `root` of runs of this user on this host that no process trains, if their
/// states are of no use: the run's folder is gone or has a checkpoint that is as new, or they are
/// older than a week.
void remove_stale_states(const std::filesystem::path& root = "/dev/shm");

}  // namespace lockstep
