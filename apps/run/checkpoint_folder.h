// CheckpointFolder: the checkpoints of a run that may still be writing there, newest first.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "net/checkpoint.h"

namespace lockstep {

/// The texts of a checkpoint that the evaluation of its step may change: the best evaluation of the
/// run (Reporter::best()), and the per cent of the test set by which it met its --target.
inline constexpr const char* kBest = "best";
inline constexpr const char* kReached = "target_reached";

class CheckpointFolder {
 public:
  /// `warn` is told once of each file that is damaged.
  CheckpointFolder(std::filesystem::path directory, std::function<void(const std::string&)> warn)
      : directory_(std::move(directory)), warn_(std::move(warn)) {}

  /// The whole checkpoint of the highest step, verified; nothing where there is none, or where it
  /// is the one of the last call: unchanged, which is not read again, or saved anew only to say
  /// that its run has evaluated it. Files that the run removes meanwhile are not missed. Throws
  /// Error where the folder cannot be read.
  std::unique_ptr<Checkpoint> next();

 private:
  /// A file that was read once is known by its name, inode, size and time.
  using Stamp = std::tuple<std::string, std::uint64_t, std::int64_t, std::int64_t, std::int64_t>;
  static std::optional<Stamp> stamp_of(const std::filesystem::path& file);

  std::filesystem::path directory_;
  std::function<void(const std::string&)> warn_;
  std::optional<Stamp> last_;
  CheckpointMetadata last_metadata_;
  std::set<Stamp> damaged_;
};

}  // namespace lockstep
