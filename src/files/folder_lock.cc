#include "src/files/folder_lock.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/machine.h"
#include "src/base/process.h"
#include "src/base/text.h"
#include "src/files/file.h"

namespace lockstep {
namespace {

// A claim takes three steps, none of which needs a lock of the file system:
//
// 1. List all claims. If the run of one may live, the folder is in use.
//
// 2. Create the claim with the next number. link() or O_EXCL lets only one process succeed.
//
// 3. List again. If a claim appeared beside ours that step 1 did not examine, withdraw ours.
//
// Only then are the claims of dead runs removed. They stay until the new claim exists. So a
// claimant that looks at any moment meets a claim to examine.
constexpr std::string_view kPrefix = "run.lock.";

/// The contents of a claim; empty: it has gone, or this user may not read it. Throws UnreadableFile
/// for errors that say nothing about the folder's holder.
std::string read_claim(const std::filesystem::path& path) {
  try {
    return read_file(path).value_or("");
  } catch (const UnreadableFile& error) {
    if (error.cause() == EMFILE || error.cause() == ENFILE || error.cause() == EIO) throw;
    return "";
  }
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// A claim as it is in its file.
struct Claim {
  std::filesystem::path file;
  std::int64_t number = 0;  ///< of the file
  std::string text;

  // The last line counts, because name_run() appends to the file.
  std::string fact(const char* name) const {
    std::string last;
    for (const auto& [key, value] : named_values(text, " = "))
      if (key == name) last = value;
    return last;
  }
  std::int64_t number_of(const char* name) const { return std::atoll(fact(name).c_str()); }
};

/// "77 east": the SLURM job and cluster of this process; empty: no job.
std::string own_job() {
  const std::string job = environment("SLURM_JOB_ID");
  return job.empty() ? "" : fmt::format("{} {}", job, environment("SLURM_CLUSTER_NAME"));
}

// The facts that decide on other machines whether the run is gone, and a token. Process numbers
// repeat, so only the token makes this text unique.
std::string own_text() {
  return fmt::format(
      "host = {}\npid = {}\nstart = {}\nspace = {}\njob = {}\nrestart = {}\nsupervisor = {}\n"
      "start_number = {}\nsince = {:%Y-%m-%d %H:%M:%S}\ntoken = {}\n",
      host_name(), ::getpid(), start_time_of(::getpid()), process_space(), own_job(),
      environment("SLURM_RESTART_COUNT"), environment("LOCKSTEP_SUPERVISOR"),
      environment("LOCKSTEP_START"), fmt::localtime(std::time(nullptr)), unique_hex(16));
}

/// The claims in `directory`, highest first.
std::vector<Claim> list_claims(const std::filesystem::path& directory) {
  std::vector<Claim> claims;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const std::string digits = name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : "";
    if (digits.empty() || digits.size() > 18 ||
        digits.find_first_not_of("0123456789") != std::string::npos) {
      continue;
    }
    claims.push_back({entry->path(), std::stoll(digits), read_claim(entry->path())});
  }
  if (error) {
    fail("cannot read the folder {}: {}; {}", directory.string(), error.message(),
         advice(error.value()));
  }
  std::ranges::sort(claims, std::greater(), &Claim::number);
  return claims;
}

/// Seconds for which this process has seen `file` untouched, from its first call on. Nothing: it is
/// gone. Clocks may be set at any time, and differ between machines. So only a change of the time
/// of the file counts, and never how old it is.
std::optional<double> silence_of(const std::filesystem::path& file) {
  struct Seen {
    std::optional<FileStamp> stamp;
    double since = 0;
  };
  static std::mutex mutex;
  static std::map<std::filesystem::path, Seen> files;
  const std::optional<FileStamp> stamp = stamp_of(file);
  if (!stamp) return {};
  const std::lock_guard lock(mutex);
  Seen& seen = files[file];
  if (seen.stamp != stamp) seen = {stamp, now_seconds()};
  return now_seconds() - seen.since;
}

/// Whether this machine's process table contains the claim's process if it lives.
bool is_of_this_machine(const Claim& claim) {
  const std::string space = process_space();
  return !space.empty() && claim.fact("space") == space;
}

/// Why the claim's run is gone; empty: it may live.
std::string why_gone(const Claim& claim) {
  // Here the process table answers at once, and the file's time does not matter. A stopped process
  // is not gone.
  if (is_of_this_machine(claim)) {
    const int pid = claim.number_of("pid");
    const bool gone =
        pid <= 0 || Process(pid, claim.number_of("start")).condition() == Condition::gone;
    return gone ? "its process is gone" : "";
  }
  // Elsewhere a later start by the same lockstep_run or SLURM job proves that the one before has
  // ended. Without such a proof, only silence shows a dead run.
  const std::string job = own_job(), supervisor = environment("LOCKSTEP_SUPERVISOR");
  if (!supervisor.empty() && supervisor == claim.fact("supervisor") &&
      std::atoll(environment("LOCKSTEP_START").c_str()) > claim.number_of("start_number")) {
    return "lockstep_run has started it again";
  }
  if (!job.empty() && job == claim.fact("job") &&
      std::atoll(environment("SLURM_RESTART_COUNT").c_str()) > claim.number_of("restart")) {
    return "its job was requeued";
  }
  const auto silent = silence_of(claim.file);
  if (!silent) return "it has ended";
  return *silent > FolderLock::kSilence ? fmt::format("no sign of life for {:.0f} s", *silent) : "";
}

/// The claim's run, without control characters: the claim may come from any user of the folder.
std::string describe(const Claim& claim) {
  if (claim.fact("token").empty()) return "a run that is just starting";
  const std::string run = claim.fact("run"), job = claim.fact("job");
  return printable(fmt::format("run {}(host {}, process {}{}{}, since {})",
                               run.empty() ? "" : run + " ", claim.fact("host"), claim.fact("pid"),
                               job.empty() ? "" : ", job ", job.substr(0, job.find(' ')),
                               claim.fact("since")));
}

/// The highest of `claims` whose run may live.
std::optional<Claim> standing(const std::vector<Claim>& claims) {
  const auto found =
      std::ranges::find_if(claims, [](const Claim& claim) { return why_gone(claim).empty(); });
  return found == claims.end() ? std::nullopt : std::optional(*found);
}

/// The same of a folder that need not exist.
std::optional<Claim> standing_in(const std::filesystem::path& directory) {
  std::error_code error;
  if (!std::filesystem::is_directory(directory, error)) return {};
  return standing(list_claims(directory));
}

/// Returns false if `file` exists. The claim appears with its text, because another start would
/// wait for the text of an empty one.
bool write_new(const std::filesystem::path& file, const std::string& text) {
  const auto create = [&](const std::filesystem::path& name) {
    OutputFile created(name, OutputFile::Mode::create);
    try {
      created.write(text);
      created.close();
    } catch (...) {
      ::unlink(name.c_str());
      throw;
    }
  };
  const std::filesystem::path temporary = temporary_name(file);
  create(temporary);
  const int error = ::link(temporary.c_str(), file.c_str()) == 0 ? 0 : errno;
  ::unlink(temporary.c_str());
  if (error == 0) return true;
  // A network file system may repeat a call that it has answered already.
  if (error == EEXIST) return read_claim(file) == text;
  try {
    create(file);  // a file system without links
  } catch (const Error&) {
    std::error_code ignored;
    if (std::filesystem::exists(file, ignored)) return false;
    throw;
  }
  return true;
}

void sleep_ms(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

}  // namespace

FolderLock::FolderLock(std::filesystem::path directory, std::string_view purpose,
                       std::chrono::milliseconds heartbeat)
    : directory_(std::move(directory)), text_(own_text()) {
  claim(purpose);
  heart_ = std::jthread([file = file_, heartbeat](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any ended;
    std::unique_lock lock(mutex);
    while (!ended.wait_for(lock, stop, heartbeat, [&] { return stop.stop_requested(); })) {
      ::utimensat(AT_FDCWD, file.c_str(), nullptr, 0);  // a failure shows at the next save
    }
  });
}

void FolderLock::claim(std::string_view purpose) {
  // A run that was killed a moment ago may still end, and a file may still be incomplete.
  constexpr int kTries = 20, kPause = 50;
  for (int tries = 1;; ++tries) {
    const std::vector<Claim> gone = list_claims(directory_);
    const auto other = standing(gone);
    if (other && tries < kTries) {
      sleep_ms(kPause);
      continue;
    }
    if (other) {
      throw Error(fmt::format("{} {} is in use by {}. Wait for it, stop it or choose another {}.",
                              purpose, directory_.string(), describe(*other), purpose),
                  kExitInUse);
    }
    const std::int64_t number = gone.empty() ? 1 : gone.front().number + 1;
    const auto file = directory_ / fmt::format("{}{}", kPrefix, number);
    if (!write_new(file, text_)) continue;
    // The folder may have changed meanwhile: only claims that were examined may be beside ours.
    const std::vector<Claim> now = list_claims(directory_);
    const bool won = std::ranges::all_of(now, [&](const Claim& claim) {
      return claim.file == file || std::ranges::any_of(gone, [&](const Claim& former) {
               return former.file == claim.file && former.text == claim.text;
             });
    });
    if (!won) {
      ::unlink(file.c_str());
      // Two claimants that saw each other both withdraw. Different pauses let one of them win.
      sleep_ms(1 + ::getpid() % kPause);
      continue;
    }
    file_ = file;
    if (!gone.empty()) {
      note_ = fmt::format("took over {} {} from {}: {}", purpose, directory_.string(),
                          describe(gone.front()), why_gone(gone.front()));
    }
    for (const Claim& former : gone) ::unlink(former.file.c_str());
    return;
  }
}

FolderLock::~FolderLock() {
  heart_ = {};  // before the file is removed, or the thread would fail to touch it
  try {
    if (read_claim(file_).starts_with(text_)) ::unlink(file_.c_str());
  } catch (const Error&) {  // the claim stays, and is that of a process that is gone
  }
}

void FolderLock::name_run(const std::string& run) {
  require_held();  // else a lost claim would appear again, beside the new holder's
  OutputFile(file_, OutputFile::Mode::extend).write(fmt::format("run = {}\n", run));
}

/// A missing file of our own is no error by itself. If the process that took the folder over is
/// gone again, no other one writes to it.
void FolderLock::require_held() const {
  for (const Claim& claim : list_claims(directory_)) {
    if (claim.text.starts_with(text_) || !why_gone(claim).empty()) continue;
    throw Error(fmt::format("{} was taken over by {} while this process was stopped. Continue only "
                            "one of the two runs.",
                            directory_.string(), describe(claim)),
                kExitInUse);
  }
}

std::optional<FolderLock::Silent> FolderLock::silent_holder(
    const std::filesystem::path& directory) {
  const auto other = standing_in(directory);
  if (!other || is_of_this_machine(*other)) return {};
  const std::optional<FileStamp> stamp = stamp_of(other->file);
  if (!stamp) return {};
  return Silent{describe(*other), *stamp};
}

std::string FolderLock::holder(const std::filesystem::path& directory) {
  const auto other = standing_in(directory);
  return other ? describe(*other) : "";
}

}  // namespace lockstep
