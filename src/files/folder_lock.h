// FolderLock: one process's claim to a folder, so that two runs never write to the same folder. It
// also works on network file systems: it needs only link() or O_EXCL, and clocks of the same speed.
// Clocks may be set while runs train.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "src/files/file.h"

namespace lockstep {

/// The claim is the file <folder>/run.lock.<N>, which names its run. A claim of a run that is gone
/// is taken over: the claimant creates run.lock.<N+1> before it removes run.lock.<N>, so that only
/// one of several claimants wins. On this machine a run is gone if its process is. On another
/// machine it is gone if its SLURM job was requeued as ours, if the same lockstep_run has started
/// the ranks again, or if this process has seen its file untouched for kSilence; the holder touches
/// it every kHeartbeat, from its own thread. A machine without a readable boot id counts as another
/// machine.
class FolderLock {
 public:
  static constexpr int kSilence = 180;  ///< seconds
  static constexpr std::chrono::milliseconds kHeartbeat{20000};

  /// Claims `directory`, which must exist and be writable; `purpose` ("--run") is for the
  /// message. Throws Error that names the holder if the folder is in use.
  FolderLock(std::filesystem::path directory, std::string_view purpose,
             std::chrono::milliseconds heartbeat = kHeartbeat);
  ~FolderLock();                                 ///< releases the folder
  FolderLock& operator=(FolderLock&&) = delete;  ///< neither copied nor moved

  /// Adds the run's name to the claim.
  void name_run(const std::string& run);
  /// Throws Error if another process took the folder over, because this one was stopped for
  /// kSilence. Then nothing more may be written to the folder.
  void require_held() const;
  /// The line that names the run whose claim was taken over; empty: there was none.
  const std::string& note() const { return note_; }

  /// A claim of another machine. Its run may be dead.
  struct Silent {
    std::string holder;  ///< "run 4a11 (host h, process 4711, ...)"
    FileStamp stamp;     ///< changes with each sign of life
  };
  /// Nothing if `directory` is free, or if its holder certainly lives. Changes nothing.
  static std::optional<Silent> silent_holder(const std::filesystem::path& directory);

  /// The holder of `directory`: "run 4a11 (host h, process 4711, ...)"; empty: it is free. Changes
  /// nothing.
  static std::string holder(const std::filesystem::path& directory);

 private:
  void claim(std::string_view purpose);

  std::filesystem::path directory_;
  std::string text_;            ///< of our file
  std::filesystem::path file_;  ///< ours
  std::string note_;
  std::jthread heart_;
};

}  // namespace lockstep
