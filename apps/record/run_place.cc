#include "apps/record/run_place.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <map>
#include <thread>
#include <utility>

#include "apps/record/run_facts.h"
#include "apps/record/run_files.h"
#include "net/checkpoint.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/plural.h"
#include "src/files/file.h"
#include "src/report/report.h"
#include "src/report/run_page.h"

// Rank 0 chooses the folder, because other hosts may see another disk. It compares the options with
// those of the stored run before any data are opened. So a wrong option costs no time, and changes
// no file.
namespace lockstep {
namespace {

namespace fs = std::filesystem;

const fs::path kRuns = "runs";

/// Whether a process certainly trains the run. One of another host may be dead: RunPlace::claim().
bool in_use(const fs::path& folder) {
  return !FolderLock::holder(folder).empty() && !FolderLock::silent_holder(folder);
}

/// Whether the run may be this user's. Another error than of permissions shows when it is read.
bool may_read(const fs::path& folder) {
  return ::access((folder / kSummaryFile).c_str(), R_OK) == 0 || errno != EACCES;
}

/// "photos" of "photos-2", and 2; number 0: the name has none.
std::pair<std::string, std::int64_t> split(const std::string& name) {
  const std::size_t dash = name.rfind('-');
  const std::string digits = dash == name.npos ? "" : name.substr(dash + 1);
  if (dash == 0 || digits.empty() || digits.size() > 9 ||
      digits.find_first_not_of("0123456789") != digits.npos) {
    return {name, 0};
  }
  return {name.substr(0, dash), std::stoll(digits)};
}

[[noreturn]] void fail_to_create(const fs::path& folder, const std::error_code& error) {
  throw Error(
      fmt::format("cannot create the run's folder {}: {}. Pass --run with a path that you can "
                  "write to, or --no-run to keep nothing.",
                  fs::absolute(folder).string(), error.message()),
      kExitStorage);
}

[[noreturn]] void fail_without(const fs::path& folder) {
  throw Error(fmt::format("the run's folder {} is gone. Put it back, and the same command resumes.",
                          folder.string()),
              kExitStorage);
}

/// Creates `folder`; false: it exists. `parent`: whether its parent is new too.
bool make(const fs::path& folder, bool& parent) {
  std::error_code error;
  parent = fs::create_directories(folder.parent_path(), error);
  const bool made = !error && fs::create_directory(folder, error);
  if (error) fail_to_create(folder, error);
  return made;
}

/// The number in a variable of the environment; 0: it is not set.
int number_in(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? 0 : std::atoi(value);
}

/// Rank 0's choice.
class Choice {
 public:
  Choice(const Options& o, int ranks) : o_(o), ranks_(ranks), chosen_(chosen_facts(o, ranks)) {}

  bool made = false, made_parent = false;  ///< the folder is new, and its parent
  std::unique_ptr<FolderLock> claim;       ///< of an unnamed run that is resumed
  fs::path folder;                         ///< empty: none, because it would have to be created
  std::vector<std::string> notes;

  void choose() {
    // A job that SLURM or lockstep_run starts again goes on with its own run, also with --new. Its
    // first start has made that run.
    const bool again = number_in("SLURM_RESTART_COUNT") > 0 || number_in("LOCKSTEP_START") > 1;
    const char* const former = std::getenv("LOCKSTEP_RUN");  // of lockstep_run's start before
    const bool goes_on = former != nullptr && (o_.run.name.empty() || o_.run.fresh);
    const std::string name = goes_on ? former : o_.run.name;
    if (name.empty()) {
      return number(kRuns / fmt::format("{}-{}", o_.program, o_.model.name),
                    again || !o_.run.fresh);
    }
    const fs::path named = named_folder(name);
    if (o_.run.fresh && !goes_on)
      return number(named.parent_path() / split(named.filename().string()).first, again);
    folder = named;
    std::error_code unreadable;
    if (!fs::exists(folder, unreadable)) {
      // A new folder would begin the run again at step 0, while the old one may only be moved.
      if (former != nullptr && again) fail_without(folder);
      if (fs::is_symlink(folder, unreadable)) {
        fail_usage("--run {} is a link to no folder. Create the folder, or use another name.",
                   folder.string());
      }
      return create();
    }
    if (!fs::is_directory(folder, unreadable))
      fail_usage("--run {} is not a folder. Use another name.", folder.string());
    const auto before = stored_facts(folder);
    if (!before) return require_no_other_files();
    const std::string others = other_run_text(differences(*before, chosen_, o_));
    if (!others.empty()) {
      // Other defaults apply without the data, so the options would be blamed.
      for (const std::string& data : o_.data.place.folders)
        if (is_gone(data)) fail_usage("{} does not exist. Pass --data with the right path.", data);
      fail_usage("{} has other options: {}. Pass the same options, or --new for another run.",
                 folder.string(), others);
    }
  }

 private:
  /// The folder `stem`-N: with `resume` that of the highest N with the same options, else new.
  void number(const fs::path& stem, bool resume) {
    // The highest number first, because it is the newest run.
    std::map<std::int64_t, fs::path, std::greater<>> runs;
    std::error_code error;
    for (fs::directory_iterator entry(stem.parent_path(), error), end; !error && entry != end;
         entry.increment(error)) {
      const auto [name, number] = split(entry->path().filename().string());
      if (name == stem.filename().string()) runs[number] = entry->path();
    }
    for (const auto& [number, path] : runs) {
      const auto before = resume && may_read(path) ? stored_facts(path) : std::nullopt;
      if (!before) continue;
      std::string others = other_run_text(differences(*before, chosen_, o_, /*unnamed=*/true));
      if (others.empty()) others = few_shards(*before);
      if (others.empty() && is_free(path)) {
        folder = path;
        return;
      }
      // Only the newest run that is passed over is named.
      if (notes.empty()) {
        notes.push_back(fmt::format("another run than {}: {}", path.string(),
                                    others.empty() ? "that one is being trained" : others));
      }
    }
    // Only one of several processes creates a folder of this name. The others try the next number.
    for (std::int64_t n = runs.empty() ? 1 : runs.begin()->first + 1; !made; ++n) {
      folder = fmt::format("{}-{}", stem.string(), n);
      create();
      if (folder.empty()) return;
    }
  }

  /// Whether no process trains the run. Claims it, so that another start finds it in use.
  bool is_free(const fs::path& path) {
    // A claim of a silent host is awaited later by claim(), so the run counts as free here.
    if (in_use(path)) return false;
    if (o_.check || FolderLock::silent_holder(path)) return true;
    try {
      claim = std::make_unique<FolderLock>(path, "--run");
    } catch (const Error&) {
      if (!in_use(path)) throw;
      return false;  // another start was faster
    }
    return true;
  }

  /// A run that was killed at once, or met a full disk, has left only its own files.
  void require_no_other_files() const {
    if (!list_checkpoints(folder / "checkpoints").empty()) return;  // they have the facts too
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      constexpr std::array kOwn{"checkpoints", "run.lock.",     kConfigFile, kNetworkFile,
                                "events.out.", "metrics.jsonl", kReportFile};
      const bool own =
          std::ranges::any_of(kOwn, [&](const char* prefix) { return name.starts_with(prefix); });
      if (own || name.find(".tmp-") != name.npos) continue;
      fail_usage("--run {}: the folder has {}, but no {}. Use another name.", folder.string(), name,
                 kSummaryFile);
    }
    if (error) fail_to_create(folder, error);
  }

  void create() {
    if (o_.check) {
      folder.clear();
    } else {
      made = make(folder, made_parent);
    }
  }

  /// Why these ranks cannot resume the run with its shards; empty: they can.
  std::string few_shards(const RunFacts& before) const {
    const std::int64_t shards = before.number("shards");
    if (o_.schedule.shards_given || shards >= ranks_) return "";
    return fmt::format("its {} are too few for {} ranks", counted(shards, "shard"), ranks_);
  }

  const Options& o_;
  int ranks_;
  RunFacts chosen_;
};

}  // namespace

fs::path named_folder(const std::string& name) {
  fs::path named = name.find('/') == name.npos ? kRuns / name : fs::path(name);
  if (!named.has_filename()) named = named.parent_path();  // "runs/one/"
  if (!named.has_parent_path()) named = "." / named;       // "one/"
  return named;
}

RunPlace::RunPlace(const Comm& comm, const Options& options) : comm_(comm), options_(options) {
  if (options.run.none) return;
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    Choice choice(options, comm.size());
    choice.choose();
    folder_ = choice.folder.lexically_normal().string();
    // As --run reads it: a name without a slash is one in runs/.
    if (!folder_.empty() && folder_.find('/') == folder_.npos) folder_ = "./" + folder_;
    // Before the return for folders that exist: only their runs are claimed here.
    lock_ = std::move(choice.claim);
    notes_ = std::move(choice.notes);
    if (!choice.made) return;
    made_.emplace_back(folder_);
    if (choice.made_parent) made_.push_back(made_.front().parent_path());
  });
  folder_ = comm.broadcast(folder_);
}

RunPlace::~RunPlace() {
  std::error_code not_empty;
  // While the claim stands, because the next holder may need it.
  if (lock_) fs::remove(checkpoints(), not_empty);
  lock_.reset();
  for (const fs::path& path : made_) fs::remove(path, not_empty);
}

void RunPlace::await_holder(const std::function<void()>& look_for_stop) {
  std::optional<FileStamp> stamp;  // of the claim that is waited for
  const auto waits = [&] {
    if (comm_.rank() != 0 || lock_) return false;
    const auto silent = FolderLock::silent_holder(folder_);
    if (!silent) return false;
    if (!stamp && !options_.reports.quiet) {
      try {
        Console().line(fmt::format("{:<12} for up to {} s: {} belongs to {}, which may be dead",
                                   "waiting", FolderLock::kSilence, folder_, silent->holder));
      } catch (const Error&) {  // a line that cannot be written does not end the run
      }
    }
    if (!stamp) stamp = silent->stamp;
    return silent->stamp == *stamp;
  };
  for (;;) {
    // Only rank 0 sees the claim. All ranks go round together, because a request to stop may reach
    // any of them.
    bool waiting = false;
    agree(comm_, [&] { waiting = waits(); });
    if (comm_.max(waiting) == 0) return;
    look_for_stop();
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
}

void RunPlace::claim(const std::function<void()>& look_for_stop) {
  if (folder_.empty()) return;
  if (!options_.check) await_holder(look_for_stop);
  agree(comm_, [&] {
    if (comm_.rank() != 0) return;
    const auto made = require_writable_directory(folder_, "--run");
    // Inner folders come first, because the destructor removes only empty ones.
    made_.insert(made_.begin(), made.begin(), made.end());
    if (options_.check) {
      const std::string holder = FolderLock::holder(folder_);
      if (!holder.empty()) notes_.push_back(fmt::format("{} is in use by {}", folder_, holder));
      return;
    }
    if (!lock_) lock_ = std::make_unique<FolderLock>(folder_, "--run");
    require_writable_directory(checkpoints(), "--run");
    // Only under the claim: without it a temporary may be that of a run that lives.
    for (const std::string& folder : {folder_, checkpoints()}) remove_stale_temporaries(folder);
    if (!lock_->note().empty()) notes_.push_back(lock_->note());
  });
}

void RunPlace::name_run(const std::string& run) {
  if (lock_) lock_->name_run(run);
}

void RunPlace::require_held() const {
  if (lock_) {
    require_there();
    lock_->require_held();
  }
  looked_ = now_seconds();
}

void RunPlace::require_still_held() const {
  constexpr double kSeconds = 5;
  // A look reads the folder, which may be on a network disk, so frequent calls share it.
  if (now_seconds() - looked_ >= kSeconds) require_held();
}

void RunPlace::require_there() const {
  if (!folder_.empty() && is_gone(folder_)) fail_without(folder_);
}

}  // namespace lockstep
