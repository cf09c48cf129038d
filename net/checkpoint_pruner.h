// CheckpointPruner: which old checkpoints make room for a new one (--keep).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace lockstep {

/// A damaged checkpoint is never removed and never counted, so it cannot push a good one out. The
/// object remembers which files are good: it reads each file once, and never those that it was told
/// of by prune(). Used by one thread of one process.
class CheckpointPruner {
 public:
  /// `keep`: good checkpoints to leave in `directory`; 0: all.
  CheckpointPruner(std::filesystem::path directory, int keep)
      : directory_(std::move(directory)), keep_(keep) {}

  /// `newest` was just written. Removes good checkpoints of lower steps until `keep` are left,
  /// `newest` included. Those of higher steps stay, uncounted: the run passed over them because
  /// they are damaged. Stops after a minute of reading and leaves the rest to the next call.
  /// Returns a line for each damaged file, once, and for the first file that cannot be removed.
  std::vector<std::string> prune(const std::filesystem::path& newest);

 private:
  /// Inode, size and modification time: a file that changes is read again.
  using Stamp = std::tuple<std::uint64_t, std::int64_t, std::int64_t, std::int64_t>;
  struct Known {
    Stamp stamp;
    bool good = false;
  };
  static Stamp stamp_of(const std::filesystem::path& file);
  bool is_good(const std::filesystem::path& file, std::vector<std::string>& warnings);

  std::filesystem::path directory_;
  int keep_;
  std::map<std::filesystem::path, Known> known_;
  bool warned_ = false;  ///< of a file that cannot be removed
};

}  // namespace lockstep
