// StateMemory: recent states of a run in the memory of each host, so that a start after a failure
// repeats few steps. The supervisor names it in the environment: LOCKSTEP_MEMORY=NAME.
//
// Each host has the folder /dev/shm/NAME-HOST. It contains the newest two states as ordinary
// checkpoints, and the file `step`: the number of the last finished step as 15 digits and a line
// end. The folder outlives the ranks, and is removed when the run is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "collectives/comm/comm.h"
#include "net/checkpoint.h"

namespace lockstep {

/// The folder of this host. All calls are local, and do nothing on ranks that are not the first of
/// their host. Thread: the computing one; write() may run on another.
class StateMemory {
 public:
  /// `first`: this rank is the first of `host`. `root`: a folder in memory.
  StateMemory(const std::string& name, const std::string& host, bool first,
              const std::filesystem::path& root = "/dev/shm");
  ~StateMemory();
  StateMemory& operator=(StateMemory&&) = delete;  ///< neither copied nor moved

  bool first() const { return first_; }
  const std::filesystem::path& folder() const { return folder_; }

  /// Creates the folder, which only this user may enter. Throws Error if the path is a link, or
  /// belongs to another user.
  void open() const;
  /// Training begins after `step`: removes all states except those of this `run` up to `step`.
  /// Throws Error if memory is short, and UnreadableFile.
  void begin(const std::string& run, std::int64_t step);
  /// Adds a state. Removes the states before the newest one first, so that at most two need memory.
  /// Throws Error if memory is short; then the newest one is left.
  void write(const Layout& layout, const std::vector<ConstSection>& sections,
             const CheckpointMetadata& metadata) const;
  /// Steps done. A store into memory; nothing before begin().
  void finished(std::int64_t step) const;
  /// The run is complete: removes the folder.
  void remove() const;

 private:
  std::filesystem::path folder_;
  bool first_;
  void* step_ = nullptr;  ///< the mapped file; null: there is none
};

/// Collective. The StateMemory of this run, opened; null: LOCKSTEP_MEMORY of rank 0 is not set.
/// Throws AgreedError if its name is not valid, or if a folder cannot be used.
std::unique_ptr<StateMemory> open_state_memory(const Comm& comm);

/// The newest state on any host.
struct FoundState {
  std::filesystem::path file;         ///< on rank 0's host; empty: there is none
  std::vector<std::string> warnings;  ///< on rank 0: states that were skipped, one line each
};

/// Collective. Finds the newest whole state of `run` after step `after`; both count on rank 0. If
/// rank 0's host lacks it, copies it there.
FoundState find_state(const Comm& comm, const StateMemory& memory, std::string run,
                      std::int64_t after);

}  // namespace lockstep
