// Replay: trains stretches of a run again, in a scratch folder and from a copy.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/audit/run_log.h"
#include "apps/record/run_facts.h"
#include "src/base/signals.h"

namespace lockstep {

struct ReplayOptions {
  std::string program;                      ///< training program
  std::string data;                         ///< folder of the data; empty: those of the run
  std::vector<std::string> more_data = {};  ///< DataSource::more_folders
  std::string scratch;  ///< folder for the copies; empty: that of temporary files
  int ranks = 0;        ///< 0: those of the run, but only one per core
};

/// One training of a stretch.
struct Replayed {
  int code = 0;         ///< exit code of the program; 0 also if it stopped after the stretch
  std::string error;    ///< the line of the program if it failed
  RunLog log = {};      ///< of the copy
  RunFacts facts = {};  ///< of the copy: this machine
};

/// Belongs to one thread.
class Replay {
 public:
  /// Creates the scratch folder. `run`: the folder of the run, with `facts`. `facts` and `signals`
  /// outlive this. Throws Error if the folder cannot be created, and the usage Error if the
  /// training program is not there.
  Replay(std::filesystem::path run, const RunFacts& facts, ReplayOptions options,
         const Signals& signals);
  /// Removes the scratch folder.
  ~Replay();
  Replay& operator=(Replay&&) = delete;  ///< neither copied nor moved

  /// Trains `stretch` in a new copy. The run saves a checkpoint after each of `steps`, which end
  /// with that of the stretch. Throws Error if a file cannot be copied, or a signal ends this or
  /// the program.
  Replayed run(const Stretch& stretch, const std::vector<std::int64_t>& steps);
  /// The checkpoint of the last copy after `step`.
  std::filesystem::path checkpoint(std::int64_t step) const;
  int ranks() const { return ranks_; }

 private:
  std::string config() const;

  const std::filesystem::path run_;
  const RunFacts& facts_;
  const ReplayOptions options_;
  const Signals& signals_;
  int ranks_ = 1;
  std::filesystem::path program_, scratch_, copy_;
};

}  // namespace lockstep
