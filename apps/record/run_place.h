// RunPlace: the one folder of a run, runs/NAME or the path of --run. It contains config.toml,
// summary.json, logs, and checkpoints/.
//
// Without --run the name is PROGRAM-MODEL-NUMBER. The run of the highest number that has the same
// options, that these ranks can resume, and that no process trains, is resumed. If there is none, a
// new run gets the next free number. So two starts at once get two folders.
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

/// The folder of --run `name`: runs/NAME, or the path NAME if it has a slash.
std::filesystem::path named_folder(const std::string& name);

/// Belongs to the computing thread. Only rank 0 changes files.
class RunPlace {
 public:
  /// Collective. Chooses the folder and creates it. There is none with --no-run or --find-lr, or if
  /// --check would have to create it. Throws AgreedError: the usage error if the run of
  /// --run has other options, Error if the folder cannot be created. `options`: outlives this. An
  /// unnamed run that is resumed is claimed at once.
  RunPlace(const Comm& comm, const Options& options);
  /// Releases the folder. Removes it if this created it and nothing was written.
  ~RunPlace();
  RunPlace& operator=(RunPlace&&) = delete;  ///< neither copied nor moved

  /// "runs/NAME", the same on all ranks; empty: the run keeps nothing.
  const std::string& folder() const { return folder_; }
  /// The folder of its checkpoints; empty: there is none.
  std::string checkpoints() const { return folder_.empty() ? "" : folder_ + "/checkpoints"; }
  /// On rank 0: results of the choice and of the claim, one line each.
  const std::vector<std::string>& notes() const { return notes_; }

  /// Collective. Claims the folder before the first step. If a run on another machine holds it and
  /// may be dead, prints a line and waits until the holder is silent for FolderLock::kSilence.
  /// `look_for_stop` is collective, is called between looks, and ends the wait by an exception.
  /// With --check it claims nothing, and a holder is only noted. Throws AgreedError if the folder
  /// cannot be written, or if another run holds it.
  void claim(const std::function<void()>& look_for_stop);

  // Local, after claim(). They do nothing if there is no folder, and on ranks other than 0.
  void name_run(const std::string& run);  ///< FolderLock::name_run()
  void require_held() const;              ///< require_there() and FolderLock::require_held()
  /// The same for frequent calls: looks every 5 s at most.
  void require_still_held() const;
  /// Throws Error (kExitStorage) if the whole folder is gone, which explains other errors.
  void require_there() const;

 private:
  void await_holder(const std::function<void()>& look_for_stop);

  const Comm comm_;
  const Options& options_;
  std::string folder_;
  std::vector<std::filesystem::path> made_;  ///< inner ones first
  std::unique_ptr<FolderLock> lock_;
  std::vector<std::string> notes_;
  mutable double looked_ = 0;  ///< time of the last require_held()
};

}  // namespace lockstep
