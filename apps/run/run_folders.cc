#include "apps/run/run_folders.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/files/file.h"
#include "src/report/report.h"

namespace lockstep {
namespace {

/// Rank 0's part of await_folders(): one folder.
class FolderWait {
 public:
  FolderWait(const char* option, std::filesystem::path folder)
      : option_(option), folder_(std::move(folder)) {}

  /// Looks at the folder; returns whether to wait on.
  bool goes_on() {
    if (over_) return false;
    const auto silent = FolderLock::silent_holder(folder_);
    if (silent && stamp_.empty()) {
      stamp_ = silent->stamp;
      print_note(*silent);
    }
    // The file system's clock may run ahead, so the wait has a limit.
    constexpr double kMost = FolderLock::kSilence + 20;
    over_ = !silent || silent->stamp != stamp_ || now_seconds() - begin_ > kMost;
    return !over_;
  }

 private:
  void print_note(const FolderLock::Silent& silent) const {
    try {
      Console().line(fmt::format(
          "{:<12} for up to {} s: {} {} belongs to {}, which gave no sign of life for {} s",
          "waiting", FolderLock::kSilence - silent.seconds, option_, folder_.string(),
          silent.holder, silent.seconds));
    } catch (const Error&) {  // a line that cannot be written does not end the run
    }
  }

  const char* option_;
  std::filesystem::path folder_;
  std::string stamp_;  ///< of the claim that is waited for; empty: none yet
  bool over_ = false;
  double begin_ = now_seconds();
};

struct ClaimedFolder {
  const char* option;
  std::string folder;
};

/// The folders that the run must hold, without those inside its own folder.
std::vector<ClaimedFolder> folders_of(const Options& options) {
  const std::string& own = options.run.folder;
  std::vector<ClaimedFolder> result;
  const auto add = [&](const char* option, const std::string& folder) {
    const bool inside = !own.empty() && folder == own + "/checkpoints";
    if (!folder.empty() && !inside) result.push_back({option, folder});
  };
  add("--run", own);
  add("--checkpoint-dir", options.checkpoints.dir);
  add("--log-dir", options.reports.log_dir);
  return result;
}

}  // namespace

void await_folders(const Comm& comm, const Options& options,
                   const std::function<void()>& look_for_stop) {
  if (options.check) return;
  std::vector<FolderWait> waits;
  if (comm.rank() == 0) {
    for (const auto& [option, folder] : folders_of(options)) waits.emplace_back(option, folder);
  }
  for (;;) {
    bool waiting = false;
    agree(comm, [&] {
      for (FolderWait& wait : waits) waiting |= wait.goes_on();
    });
    if (comm.max(waiting) == 0) return;
    look_for_stop();
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
}

RunFolders::RunFolders(const Options& options) {
  try {
    const std::vector<ClaimedFolder> folders = folders_of(options);
    for (auto it = folders.begin(); it != folders.end(); ++it) {
      const bool held = std::any_of(folders.begin(), it, [&](const ClaimedFolder& other) {
        std::error_code error;
        return std::filesystem::equivalent(it->folder, other.folder, error);
      });
      if (!held) claim(it->folder, it->option, options.check);
    }
    if (!options.run.folder.empty()) make(options.checkpoints.dir, "--run");
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

void RunFolders::make(const std::string& folder, const char* option) {
  const auto made = require_writable_directory(folder, option);
  made_.insert(made_.begin(), made.begin(), made.end());
}

void RunFolders::claim(const std::string& folder, const char* option, bool only_ask) {
  make(folder, option);
  if (only_ask) {
    const std::string holder = FolderLock::holder(folder);
    if (!holder.empty())
      notes_.push_back(fmt::format("{} {} is in use by {}", option, folder, holder));
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
  looked_ = now_seconds();
}

void RunFolders::require_still_held() const {
  constexpr double kSeconds = 5;
  if (now_seconds() - looked_ >= kSeconds) require_held();
}

}  // namespace lockstep
