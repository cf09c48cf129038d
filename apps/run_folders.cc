#include "apps/run_folders.h"

#include "src/check.h"
#include "src/file.h"

namespace lockstep {

RunFolders::RunFolders(const Options& options) {
  try {
    if (!options.checkpoint_dir.empty())
      take(options.checkpoint_dir, "--checkpoint-dir", options.check);
    std::error_code error;
    const bool same = !options.checkpoint_dir.empty() &&
                      std::filesystem::equivalent(options.checkpoint_dir, options.log_dir, error);
    if (!options.log_dir.empty() && !same) take(options.log_dir, "--log-dir", options.check);
  } catch (...) {
    locks_.clear();
    remove_made();
    throw;
  }
}

RunFolders::~RunFolders() {
  locks_.clear();
  remove_made();
}

void RunFolders::take(const std::filesystem::path& folder, const char* option, bool only_ask) {
  const auto made = require_writable_directory(folder, option);
  made_.insert(made_.begin(), made.begin(), made.end());
  if (only_ask) {
    const std::string holder = FolderLock::holder(folder);
    if (!holder.empty()) {
      notes_.push_back(fmt::format("{} {} is in use by {}", option, folder.string(), holder));
    }
    return;
  }
  locks_.push_back(std::make_unique<FolderLock>(folder, option));
  if (!locks_.back()->note().empty()) notes_.push_back(locks_.back()->note());
}

void RunFolders::remove_made() {
  std::error_code not_empty;
  for (const std::filesystem::path& path : made_) std::filesystem::remove(path, not_empty);
  made_.clear();
}

void RunFolders::name_run(const std::string& run) {
  for (const auto& lock : locks_) lock->name_run(run);
}

void RunFolders::require_held() const {
  for (const auto& lock : locks_) lock->require_held();
}

}  // namespace lockstep
