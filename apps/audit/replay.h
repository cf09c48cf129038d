// Replay: trains stretches of a run again, in a scratch folder and from a copy.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "apps/audit/run_log.h"
#include "apps/record/run_facts.h"
#include "src/base/signals.h"

namespace lockstep {

struct ReplayOptions {
  std::string program;            ///< training program
  std::vector<std::string> data;  ///< folders of the data; empty: those of the run
  std::string scratch;            ///< folder for the copies; empty: that of temporary files
  int ranks = 0;                  ///< 0: those of the run, but only one per core
  /// Options of the run may name files other than its data, or be unknown here.
  bool trusted = false;
};

/// The begin and the end of a replay.
struct ReplaySpec {
  Stretch stretch;
  std::set<std::int64_t> steps = {};  ///< after which the replay saves a checkpoint, with the last
  std::filesystem::path checkpoint = {};  ///< after stretch.begin; empty: the run begins there
  std::filesystem::path best = {};        ///< the best one up to there; empty: none
  std::string leaves = {};                ///< replay_leaves()
};

/// One training of a stretch.
struct Replayed {
  int code = 0;              ///< exit code of the program; 0 also if it stopped after the stretch
  std::string error;         ///< the line of the program if it failed
  RunLog log = {};           ///< of the copy, with the checkpoint after the stretch
  RunFacts facts = {};       ///< of the copy: this machine
  std::string samples = {};  ///< samples.bin of the last start that was replayed; empty: none
};

/// A folder of its own, removed at the end. Also removes those of processes of this user that have
/// ended without it.
class ScratchFolder {
 public:
  /// Throws Error if it cannot be created in `parent`.
  explicit ScratchFolder(const std::filesystem::path& parent);
  ~ScratchFolder();
  ScratchFolder& operator=(ScratchFolder&&) = delete;  ///< neither copied nor moved

  const std::filesystem::path path;

 private:
  int lock_ = -1;  ///< as long as this process or a program that it started lives
};

/// Belongs to one thread.
class Replay {
 public:
  /// `run`: the log, whose first start has options. `facts`: of summary.json. All arguments outlive
  /// this. Throws Error if the scratch folder cannot be created, and the usage Error if the
  /// training program is not there.
  Replay(const RunLog& run, const RunFacts& facts, const ReplayOptions& options,
         const Signals& signals);

  /// Trains a stretch in a new copy: the part of each start with its options. Throws Error if a
  /// file cannot be copied, or a signal ends this or the program.
  Replayed run(const ReplaySpec& spec);
  /// Number of ranks for the last start.
  int ranks() const { return ranks_of(run_.starts.back().facts); }

 private:
  int ranks_of(const RunFacts& start) const;
  bool is_canonical(const RunFacts& start) const;
  std::string config(const RunFacts& start, bool resumes) const;
  void run_start(const RunFacts& start, bool resumes, Replayed& result);

  const RunLog& run_;
  const RunFacts& facts_;
  const ReplayOptions& options_;
  const Signals& signals_;
  const std::filesystem::path program_;
  const ScratchFolder scratch_;
  std::filesystem::path copy_;
};

}  // namespace lockstep
