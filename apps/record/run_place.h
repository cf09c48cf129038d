// The folders that a run writes to: rank 0 creates and claims them before the first step.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "apps/options/run_options.h"
#include "collectives/comm/comm.h"
#include "src/files/folder_lock.h"

namespace lockstep {

/// Collective, before RunFolders. If a run on another machine holds a folder and may be dead,
/// prints a line and waits until the holder is silent for FolderLock::kSilence. A sign of life ends
/// the wait: RunFolders then throws. `look_for_stop` is collective, is called between looks, and
/// ends the wait by an exception. Does nothing with --check.
void await_folders(const Comm& comm, const Options& options,
                   const std::function<void()>& look_for_stop);

/// The folder of the run and its checkpoints, --checkpoint-dir and --log-dir. One thread.
class RunFolders {
 public:
  /// Throws Error if a folder cannot be created or written, or if another run holds it. With
  /// --check it claims nothing, and a holder is only noted.
  explicit RunFolders(const Options& options);
  ~RunFolders();  ///< releases them; removes those that it created and that are empty
  RunFolders& operator=(RunFolders&&) = delete;  ///< neither copied nor moved

  void name_run(const std::string& run);  ///< FolderLock::name_run() of each
  void require_held() const;              ///< FolderLock::require_held() of each
  /// The same for frequent calls: looks every 5 s at most.
  void require_still_held() const;
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void make(const std::string& folder, const char* option);
  void remove_made();

  std::vector<std::shared_ptr<FolderLock>> locks_;
  std::vector<std::filesystem::path> made_;  ///< inner ones first
  std::vector<std::string> notes_;
  mutable double looked_ = 0;  ///< time of the last require_held()
};

}  // namespace lockstep
