// The folder of a run: runs/NAME below the current folder.
//
// Without --run the name is PROGRAM-MODEL-NUMBER. The run of the highest number that has the same
// options, that these ranks can resume, and that no process trains, is resumed. If there is none, a
// new run gets the next free number. So two starts at once get two folders.
#pragma once

#include <filesystem>
#include <string>

#include "apps/options/run_options.h"
#include "collectives/comm/comm.h"

namespace lockstep {

/// The folder of --run `name`: runs/NAME, or the path NAME if it has a slash.
std::filesystem::path named_folder(const std::string& name);

/// Chooses and creates the folder on rank 0, and removes it at the end if nothing was written.
class RunFolder {
 public:
  /// Collective. Sets the folders of `options` on all ranks, except those that the user set. Does
  /// nothing if the run keeps no folder, or if --check or --summary would have to create it. Throws
  /// AgreedError: the usage error if the run of --run has other options, Error if the folder cannot
  /// be created. `options`: outlives this. An unnamed run that is resumed is claimed until the end.
  RunFolder(const Comm& comm, Options& options);
  ~RunFolder();
  RunFolder& operator=(RunFolder&&) = delete;  ///< neither copied nor moved

 private:
  Options& options_;
  std::string made_;          ///< empty: it existed
  bool made_parent_ = false;  ///< an empty folder of the user stays
};

}  // namespace lockstep
