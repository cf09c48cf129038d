// The checkpoints of a run that is audited.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/audit/run_log.h"

namespace lockstep {

struct AuditedCheckpoints {
  std::vector<LoggedValue> hashes;  ///< of the weights, by step
  std::vector<std::string> damage;  ///< why a file cannot be read, one line each
};

/// Reads all checkpoints step-NNNNNNNNNN.h5 in `folder`. Throws UnreadableFile, and Error if the
/// folder cannot be read.
AuditedCheckpoints hash_checkpoints(const std::filesystem::path& folder);

/// "0.0012 in conv1/weights": the largest difference of a weight; empty: there is none. Throws
/// Error if a file cannot be read or they are of different networks.
std::string largest_difference(const std::filesystem::path& one,
                               const std::filesystem::path& other);

/// The steps whose files have different hashes, in words; empty: there is none. `log` contains the
/// hashes of the checkpoints too.
std::vector<std::string> contradictions(const RunLog& log);

/// The stretches between neighbouring states: the start of the run after step `began`, and its
/// checkpoints. The last one ends at the last hash.
std::vector<Stretch> stretches_of(const RunLog& log, const std::vector<LoggedValue>& checkpoints,
                                  std::int64_t began);

}  // namespace lockstep
