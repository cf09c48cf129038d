// The folders that a run writes to: made, proved writable and claimed before step one, on rank 0.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "apps/run/options.h"
#include "collectives/comm/comm.h"
#include "src/files/folder_lock.h"

namespace lockstep {

/// Collective, before RunFolders. If a run on another machine holds a folder and may be dead, waits
/// until its silence is over, and rank 0 prints a line that says so. A sign of life ends the wait:
/// RunFolders then refuses. `look_for_stop` is collective, is called between looks, and ends the
/// wait by an exception. With --check it waits for nothing.
void await_folders(const Comm& comm, const Options& options,
                   const std::function<void()>& look_for_stop);

/// --checkpoint-dir and --log-dir, as far as they are given. One thread.
class RunFolders {
 public:
  /// Throws Error where a folder cannot be made or written, or another run holds it. With --check
  /// all stays as it is and a holder is but noted.
  explicit RunFolders(const Options& options);
  ~RunFolders();  ///< gives them back; those that it made and that hold nothing go again
  RunFolders(const RunFolders&) = delete;
  RunFolders& operator=(const RunFolders&) = delete;

  void name_run(const std::string& run);  ///< for those who ask who holds them
  void require_held() const;              ///< FolderLock::require_held() of each
  /// The same for what is written often: looks every 5 s at most.
  void require_still_held() const;
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void take(const std::filesystem::path& folder, const char* option, bool only_ask);
  void remove_made();

  std::vector<std::unique_ptr<FolderLock>> locks_;
  std::vector<std::filesystem::path> made_;  ///< what lies inside first
  std::vector<std::string> notes_;
  mutable double looked_ = 0;  ///< when require_held() last found all held
};

}  // namespace lockstep
