#include "src/files/folder_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <vector>

#include "src/base/check.h"
#include "src/base/machine.h"
#include "src/base/process.h"
#include "src/base/text.h"
#include "src/base/unique.h"
#include "src/files/file.h"

namespace lockstep {
namespace {

constexpr std::string_view kPrefix = "run.lock.";

/// Empty where it is no regular file: a pipe would wait for a writer, a device has no end. Nothing,
/// with errno, where it cannot be read.
std::optional<std::string> try_read(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return "";
  std::ifstream in(path, std::ios::binary);
  if (!in) return {};
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::string read_all(const std::filesystem::path& path) { return try_read(path).value_or(""); }

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::int64_t whole_number(const std::string& text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// Within one of these, a process number names one process: a boot of one kernel, and a container's
/// own numbers in it. Empty if this machine does not tell: the numbers of the first container are
/// alike on all machines.
std::string process_space() {
  std::string boot = read_all("/proc/sys/kernel/random/boot_id");
  boot.erase(boot.find_last_not_of('\n') + 1);
  std::error_code ignored;
  const std::string numbers = std::filesystem::read_symlink("/proc/self/ns/pid", ignored).string();
  return boot.empty() || numbers.empty() ? "" : boot + " " + numbers;
}

/// A claim as its file says it.
struct Claim {
  std::filesystem::path file;
  std::int64_t number = 0;  ///< of the file
  std::string text;
  std::map<std::string, std::string> lines;

  std::string fact(const char* name) const {
    const auto found = lines.find(name);
    return found == lines.end() ? "" : found->second;
  }
};

/// "77 east": the SLURM job that this process belongs to; empty: none.
std::string own_job() {
  const std::string job = environment("SLURM_JOB_ID");
  return job.empty() ? "" : fmt::format("{} {}", job, environment("SLURM_CLUSTER_NAME"));
}

std::string own_text() {
  char since[32] = "";
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  std::strftime(since, sizeof since, "%Y-%m-%d %H:%M:%S", ::localtime_r(&now, &parts));
  return fmt::format(
      "host = {}\npid = {}\nstart = {}\nspace = {}\njob = {}\nrestart = {}\nsince = {}\n"
      "token = {}\n",
      host_name(), ::getpid(), start_time_of(::getpid()), process_space(), own_job(),
      environment("SLURM_RESTART_COUNT"), since, unique_hex(16));
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
    const auto text = try_read(entry->path());
    // What this process cannot read for a lack of its own says nothing of who holds the folder.
    if (!text && (errno == EMFILE || errno == ENFILE || errno == EIO)) {
      const int cause = errno;
      fail("cannot read {}: {}; {}", entry->path().string(), std::strerror(cause), cure(cause));
    }
    Claim claim{entry->path(), whole_number(digits), text.value_or(""), {}};
    for (const auto& [name, value] : named_values(claim.text, " = ")) claim.lines[name] = value;
    claims.push_back(std::move(claim));
  }
  if (error) {
    fail("cannot read the folder {}: {}; {}", directory.string(), error.message(),
         cure(error.value()));
  }
  std::sort(claims.begin(), claims.end(),
            [](const Claim& a, const Claim& b) { return a.number > b.number; });
  return claims;
}

/// Seconds since `file` was last touched, by the clock of its file system; nothing where it is
/// gone.
std::optional<std::int64_t> silence_of(const std::filesystem::path& file) {
  struct stat touched {
  }, now{};
  const std::filesystem::path probe = temporary_name(file);
  const int descriptor =
      ::open(probe.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (descriptor >= 0) {
    ::fstat(descriptor, &now);
    ::close(descriptor);
    ::unlink(probe.c_str());
  } else {
    now.st_mtime = std::time(nullptr);  // a folder that is only asked about
  }
  if (::stat(file.c_str(), &touched) != 0) return {};
  return now.st_mtime - touched.st_mtime;
}

/// Whether this machine's process table tells if the claim's process lives.
bool is_of_this_machine(const Claim& claim) {
  const std::string space = process_space();
  return !space.empty() && claim.fact("space") == space;
}

/// Why nobody is behind the claim any more; empty: somebody is.
std::string why_gone(const Claim& claim) {
  if (is_of_this_machine(claim)) {
    const auto pid = static_cast<int>(whole_number(claim.fact("pid")));
    const auto start = static_cast<std::uint64_t>(whole_number(claim.fact("start")));
    const bool gone = pid <= 0 || Process(pid, start).condition() == Condition::gone;
    return gone ? "its process is gone" : "";
  }
  const std::string job = own_job();
  if (!job.empty() && job == claim.fact("job") &&
      whole_number(environment("SLURM_RESTART_COUNT")) > whole_number(claim.fact("restart"))) {
    return "its job was requeued";
  }
  const auto silent = silence_of(claim.file);
  if (!silent) return "it has ended";
  return *silent > FolderLock::kSilence ? fmt::format("it gave no sign for {} s", *silent) : "";
}

/// For a terminal: anyone who may write to the folder may have written the claim.
std::string describe(const Claim& claim) {
  if (claim.fact("token").empty()) return "a run that is just starting";
  const std::string run = claim.fact("run"), job = claim.fact("job");
  return printable(fmt::format("run {}(host {}, process {}{}{}, since {})",
                               run.empty() ? "" : run + " ", claim.fact("host"), claim.fact("pid"),
                               job.empty() ? "" : ", job ", job.substr(0, job.find(' ')),
                               claim.fact("since")));
}

/// The claim that stands in the way, if one does; those of the gone go to `gone`.
std::optional<Claim> standing(const std::vector<Claim>& claims, std::vector<Claim>& gone) {
  for (const Claim& claim : claims) {
    if (why_gone(claim).empty()) return claim;
    gone.push_back(claim);
  }
  return {};
}

bool write_new(const std::filesystem::path& file, const std::string& text) {
  const int descriptor =
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (descriptor < 0 && errno == EEXIST) return false;
  require(descriptor >= 0, "cannot write {}: {}; choose a directory that you may write to",
          file.string(), std::strerror(errno));
  const bool whole =
      ::write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int error = errno;
  if (::close(descriptor) == 0 && whole) return true;
  ::unlink(file.c_str());
  fail("cannot write {}: {}; free some space, or choose another directory", file.string(),
       std::strerror(whole ? errno : error));
}

void sleep_ms(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

}  // namespace

FolderLock::FolderLock(std::filesystem::path directory, std::string_view purpose,
                       std::chrono::milliseconds heartbeat)
    : directory_(std::move(directory)), text_(own_text()) {
  claim(purpose);
  heart_ =
      std::jthread([this, heartbeat](const std::stop_token& stop) { keep_alive(stop, heartbeat); });
}

void FolderLock::claim(std::string_view purpose) {
  // A run that was killed a moment ago may not have left yet, and a file may not be whole yet.
  constexpr int kTries = 20, kPause = 50;
  for (int tries = 1;; ++tries) {
    std::vector<Claim> gone;
    const auto other = standing(list_claims(directory_), gone);
    if (other && tries < kTries) {
      sleep_ms(kPause);
      continue;
    }
    if (other) {
      fail(
          "{} {} is in use by {}: wait for it or stop it, or choose another {}; a dead run's {} is "
          "free after {} s",
          purpose, directory_.string(), describe(*other), purpose, purpose, kSilence);
    }
    const std::int64_t number = gone.empty() ? 1 : gone.front().number + 1;
    const auto file = directory_ / fmt::format("{}{}", kPrefix, number);
    if (!write_new(file, text_)) continue;
    // What was seen before may be history: only those that were judged may be beside us.
    const std::vector<Claim> now = list_claims(directory_);
    const bool won = std::all_of(now.begin(), now.end(), [&](const Claim& claim) {
      return claim.file == file || std::any_of(gone.begin(), gone.end(), [&](const Claim& former) {
               return former.file == claim.file && former.text == claim.text;
             });
    });
    if (!won) {
      ::unlink(file.c_str());
      sleep_ms(1 + ::getpid() % kPause);
      continue;
    }
    file_ = file;
    if (!gone.empty()) {
      note_ = fmt::format("took {} {} over from {}: {}", purpose, directory_.string(),
                          describe(gone.front()), why_gone(gone.front()));
    }
    for (const Claim& former : gone) ::unlink(former.file.c_str());
    return;
  }
}

FolderLock::~FolderLock() {
  heart_.request_stop();
  if (heart_.joinable()) heart_.join();
  if (read_all(file_).starts_with(text_)) ::unlink(file_.c_str());
}

void FolderLock::keep_alive(std::stop_token stop, std::chrono::milliseconds heartbeat) {
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, stop, heartbeat, [] { return false; }) && !stop.stop_requested()) {
    ::utimensat(AT_FDCWD, file_.c_str(), nullptr, 0);  // a failure shows at the next save
  }
}

void FolderLock::name_run(const std::string& run) {
  require_held();  // made anew, a claim that was taken over would stand beside the other's
  OutputFile(file_, OutputFile::Mode::extend).write(fmt::format("run = {}\n", run));
}

void FolderLock::require_held() const {
  for (const Claim& claim : list_claims(directory_)) {
    if (claim.text.starts_with(text_)) continue;
    std::vector<Claim> gone;
    require(!standing({claim}, gone),
            "{} was taken over by {} while this process stood still: nothing more is written to it",
            directory_.string(), describe(claim));
  }
}

std::optional<FolderLock::Silent> FolderLock::silent_holder(
    const std::filesystem::path& directory) {
  std::error_code error;
  if (!std::filesystem::is_directory(directory, error)) return {};
  std::vector<Claim> gone;
  const auto other = standing(list_claims(directory), gone);
  if (!other || other->fact("token").empty() || is_of_this_machine(*other)) return {};
  struct stat touched {};
  if (::stat(other->file.c_str(), &touched) != 0) return {};
  const std::int64_t seconds = silence_of(other->file).value_or(0);
  return Silent{describe(*other),
                fmt::format("{} {}.{} {}", other->file.string(), touched.st_mtim.tv_sec,
                            touched.st_mtim.tv_nsec, other->text),
                std::clamp<std::int64_t>(seconds, 0, kSilence)};
}

std::string FolderLock::holder(const std::filesystem::path& directory) {
  std::error_code error;
  if (!std::filesystem::is_directory(directory, error)) return "";
  std::vector<Claim> gone;
  const auto other = standing(list_claims(directory), gone);
  return other ? describe(*other) : "";
}

}  // namespace lockstep
