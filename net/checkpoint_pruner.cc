#include "net/checkpoint_pruner.h"

#include <sys/stat.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "net/checkpoint.h"
#include "src/base/check.h"
#include "src/base/clock.h"

namespace lockstep {

CheckpointPruner::Stamp CheckpointPruner::stamp_of(const std::filesystem::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return {};
  return Stamp(status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

bool CheckpointPruner::is_good(const std::filesystem::path& file,
                               std::vector<std::string>& warnings) {
  const Stamp stamp = stamp_of(file);
  const auto known = known_.find(file);
  if (known != known_.end() && known->second.stamp == stamp) return known->second.good;
  bool good = true;
  try {
    verify_checkpoint(file);
  } catch (const Error& error) {
    good = false;
    if (std::error_code gone; std::filesystem::exists(file, gone))
      warnings.push_back(fmt::format("--keep does not count a checkpoint: {}", error.what()));
  }
  known_[file] = {stamp, good};
  return good;
}

std::vector<std::string> CheckpointPruner::prune(const std::filesystem::path& newest) {
  std::vector<std::string> warnings;
  if (keep_ == 0) return warnings;
  constexpr double kSeconds = 60;
  const double begin = now_seconds();
  known_[newest] = {stamp_of(newest), true};
  const std::vector<std::filesystem::path> files = list_checkpoints(directory_);
  int good = 0;
  for (auto file = std::find(files.begin(), files.end(), newest);
       file != files.end() && now_seconds() - begin < kSeconds; ++file) {
    if (!is_good(*file, warnings) || ++good <= keep_) continue;
    std::error_code error;
    std::filesystem::remove(*file, error);
    if (!error) known_.erase(*file);
    if (error && !std::exchange(warned_, true)) {
      warnings.push_back(
          fmt::format("cannot remove the old checkpoint {}: {}; it stays until you remove it",
                      file->string(), error.message()));
    }
  }
  return warnings;
}

}  // namespace lockstep
