// The checkpoints of a run that is audited, and the agreement of its files with each other.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "apps/audit/run_log.h"
#include "src/report/stored_run.h"

namespace lockstep {

/// The checkpoints of a run by their steps: step-NNNNNNNNNN.h5, or else a best*.h5.
using Checkpoints = std::map<std::int64_t, std::filesystem::path>;

/// Adds a hash of each array of `file`, its attributes, its facts, and the hash of its weights.
/// Throws UnreadableFile, and Error that names the file if it is damaged; then nothing is added.
void add_checkpoint(const std::filesystem::path& file, RunLog& log);

/// Adds all step-*.h5 and best*.h5 in `folder`. A file that is damaged, or has the name of another
/// step or of the best evaluation without being it, is damage. Throws UnreadableFile, and Error if
/// the folder cannot be read.
Checkpoints add_checkpoints(const std::filesystem::path& folder, RunLog& log);

/// The contradictions between files of the run, one line each: values of one step, and facts of one
/// start. `log` contains the checkpoints too; `run` gives summary.json and config.toml.
std::vector<std::string> contradictions(const RunLog& log, const StoredRun& run);

/// The stretches between neighbouring states: the start of the run, and its checkpoints. The last
/// one ends with the last value of `log`.
std::vector<Stretch> stretches_of(const RunLog& log, const Checkpoints& checkpoints);

}  // namespace lockstep
