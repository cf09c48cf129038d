// FolderLock: one process's claim to a folder, so that two runs never write to the same one. Works
// on network file systems too: it needs no more than O_EXCL, and clocks that run at the same speed.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace lockstep {

/// The claim is the file <folder>/run.lock.<N>, which says who holds it. A claim whose process is
/// gone is taken over: the claimant makes run.lock.<N+1> before it removes run.lock.<N>, so that of
/// any number of claimants one wins. It is gone if its process is no more on this machine; on
/// another one, if its SLURM job was requeued as ours, or if its file was not touched for
/// kSilence (its holder touches it every kHeartbeat, from a thread of its own). A machine whose
/// boot id cannot be read counts as another one.
class FolderLock {
 public:
  static constexpr int kSilence = 180;  ///< seconds
  static constexpr std::chrono::milliseconds kHeartbeat{20000};

  /// Claims `directory`, which must be there and writable; `purpose` ("--log-dir") is for the
  /// message. Throws Error that names the holder and the cure where it is taken.
  FolderLock(std::filesystem::path directory, std::string_view purpose,
             std::chrono::milliseconds heartbeat = kHeartbeat);
  ~FolderLock();  ///< gives it back
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// Adds the run's name to what others are told of the holder.
  void name_run(const std::string& run);
  /// Throws Error where another process has taken the folder over, as one may when this one stood
  /// still for kSilence: nothing more may be written to it then.
  void require_held() const;
  /// The line that says whose claim was taken over; else empty.
  const std::string& note() const { return note_; }

  /// A claim of another machine that gave no sign of life lately. Its run may be dead.
  struct Silent {
    std::string holder;        ///< "run 4a11 (host h, process 4711, ...)"
    std::string stamp;         ///< another one after each sign of life
    std::int64_t seconds = 0;  ///< since the last sign of life; kSilence at most
  };
  /// Nothing if `directory` can be claimed, or if its holder is known to live. Changes nothing.
  static std::optional<Silent> silent_holder(const std::filesystem::path& directory);

  /// Who holds `directory` now ("a run (rank 0 on host h, process 4711, ...)"); empty: nobody.
  /// Changes nothing.
  static std::string holder(const std::filesystem::path& directory);

 private:
  void claim(std::string_view purpose);
  void keep_alive(std::stop_token stop, std::chrono::milliseconds heartbeat);

  std::filesystem::path directory_;
  std::string text_;            ///< of our file
  std::filesystem::path file_;  ///< ours; empty: none
  std::string note_;
  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::jthread heart_;
};

}  // namespace lockstep
