#include "apps/record/run_place.h"

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
  /// `quiet`: the line of another folder names the holder, or --quiet is given.
  FolderWait(const char* option, std::filesystem::path folder, bool quiet)
      : option_(option), folder_(std::move(folder)), quiet_(quiet) {}

  /// Looks at the folder; returns whether to wait on.
  bool keep_going() {
    if (over_) return false;
    const auto silent = FolderLock::silent_holder(folder_);
    if (silent && stamp_.empty()) {
      stamp_ = silent->stamp;
      if (!quiet_) print_note(*silent);
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
  bool quiet_;
  std::string stamp_;  ///< of the claim that is waited for; empty: none yet
  bool over_ = false;
  double begin_ = now_seconds();
};

struct ClaimedFolder {
  const char* option;
  std::string folder;
  bool inside = false;  ///< of the run's own folder: the same holder, so it is not named again
};

/// The folders that the run must hold. Its own checkpoints are one, because another run may name
/// them by --checkpoint-dir.
std::vector<ClaimedFolder> folders_of(const Options& options) {
  const std::string& own = options.run.folder;
  std::vector<ClaimedFolder> result;
  const auto add = [&](const char* option, const std::string& folder) {
    if (!folder.empty()) result.push_back({option, folder});
  };
  add("--run", own);
  add("--checkpoint-dir", options.checkpoints.dir);
  if (!own.empty() && options.checkpoints.dir == own + "/checkpoints")
    result.back() = {"--run", options.checkpoints.dir, /*inside=*/true};
  add("--log-dir", options.reports.log_dir);
  return result;
}

}  // namespace

void await_folders(const Comm& comm, const Options& options,
                   const std::function<void()>& look_for_stop) {
  if (options.check) return;
  std::vector<FolderWait> waits;
  if (comm.rank() == 0) {
    for (const ClaimedFolder& f : folders_of(options)) {
      const bool held = f.folder == options.run.folder && options.run.claim;
      if (!held) waits.emplace_back(f.option, f.folder, f.inside || options.reports.quiet);
    }
  }
  for (;;) {
    bool waiting = false;
    agree(comm, [&] {
      for (FolderWait& wait : waits) waiting |= wait.keep_going();
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
      if (held) continue;
      make(it->folder, it->option);
      if (options.check) {
        const std::string holder = it->inside ? "" : FolderLock::holder(it->folder);
        if (!holder.empty())
          notes_.push_back(fmt::format("{} {} is in use by {}", it->option, it->folder, holder));
        continue;
      }
      const bool chosen = it->folder == options.run.folder && options.run.claim;
      locks_.push_back(chosen ? options.run.claim
                              : std::make_shared<FolderLock>(it->folder, it->option));
      remove_stale_temporaries(it->folder);
      const std::string& note = locks_.back()->note();
      if (!note.empty() && !it->inside) notes_.push_back(note);
    }
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
