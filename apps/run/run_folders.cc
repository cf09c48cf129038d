#include "apps/run/run_folders.h"

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

}  // namespace

void await_folders(const Comm& comm, const Options& options,
                   const std::function<void()>& look_for_stop) {
  if (options.check) return;
  std::vector<FolderWait> waits;
  if (comm.rank() == 0) {
    for (const auto& [option, folder] : {std::pair("--checkpoint-dir", &options.checkpoints.dir),
                                         {"--log-dir", &options.reports.log_dir}}) {
      if (!folder->empty()) waits.emplace_back(option, *folder);
    }
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
    const std::string &saves = options.checkpoints.dir, &logs = options.reports.log_dir;
    claim(saves, "--checkpoint-dir", options.check);
    std::error_code error;
    const bool same = !saves.empty() && std::filesystem::equivalent(saves, logs, error);
    if (!same) claim(logs, "--log-dir", options.check);
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

/// Nothing for an empty `folder`.
void RunFolders::claim(const std::string& folder, const char* option, bool only_ask) {
  if (folder.empty()) return;
  const auto made = require_writable_directory(folder, option);
  made_.insert(made_.begin(), made.begin(), made.end());
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
