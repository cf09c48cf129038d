#include "apps/record/state_memory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "apps/record/kept_states.h"
#include "apps/record/run_facts.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/machine.h"
#include "src/files/file.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kStepBytes = 16;
constexpr const char* kRunFile = "run";
constexpr const char* kDeviceFile = "device";

std::string prefix() { return fmt::format("lockstep-run-{}-", ::geteuid()); }

/// Whether only this user may enter `folder`. Nothing in another one may be trusted.
/// /dev/shm is open to all users, so another one may have made the folder, or a link of this name.
bool is_own(const fs::path& folder) {
  struct stat status {};
  return ::lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == ::geteuid() && (status.st_mode & 077) == 0;
}

void require_own(const fs::path& folder) {
  require(is_own(folder), "{} is not a folder that only this user may enter", folder.string());
}

/// A descriptor of `file` if no other process has locked it; -1: one has, or it cannot be opened.
/// flock() ends with the process, whatever ends it, so a dead run leaves no lock. A link or a pipe
/// of this name is not opened as the file.
int lock_of(const fs::path& file, int flags) {
  const int descriptor = ::open(file.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) return -1;
  struct stat status {};
  const bool is_file = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);  // no pipe
  if (is_file && ::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return descriptor;
  ::close(descriptor);
  return -1;
}

/// Turns the newest state in `folder` into a checkpoint there.
void unpack(const fs::path& folder) {
  const fs::path file = folder / "states";
  if (is_gone(file)) return;
  {
    // A checkpoint in /dev/shm needs as much memory as a copy. So the other copy goes first: a host
    // may have no room for three.
    const KeptStates states(file);  // the sections are in its memory
    if (const auto state = states.newest()) {
      states.free_others(*state);
      save_checkpoint(folder, state->layout, state->sections, state->metadata);
    }
  }
  std::error_code ignored;
  fs::remove(file, ignored);
}

/// The newest whole state of `run` after `after` in a folder.
struct LocalState {
  fs::path file;
  std::int64_t step = 0;
};

LocalState newest_of(const fs::path& folder, const std::string& run, std::int64_t after,
                     std::vector<std::string>& warnings) {
  // A damaged state is skipped, because an older one may serve. An error that may pass is thrown: a
  // start from an older state would lose steps.
  const auto attempt = [&](const auto& work) {
    try {
      work();
    } catch (const UnreadableFile&) {
      throw;
    } catch (const Error& error) {
      if (error.exit_code() == kExitStorage) throw;  // the state is good, but memory is short
      warnings.push_back(
          fmt::format("skipping a state in the memory of {}: {}", host_name(), error.what()));
    }
  };
  LocalState found;
  if (is_gone(folder)) return found;
  attempt([&] {
    require_own(folder);
    unpack(folder);
  });
  if (!is_own(folder)) return found;
  for (const fs::path& file : list_checkpoints(folder)) {
    attempt([&] {
      const Checkpoint state(file);
      const std::int64_t step = state.metadata().position.step;
      if (RunFacts::of(file, state.metadata()).text("id") != run || step <= after) return;
      state.verify();
      found = {file, step};
    });
    if (!found.file.empty()) break;
  }
  return found;
}

/// Collective. Copies `from` of rank `owner` into the folder of rank 0's host, piece by piece. The
/// copy's path on rank 0; empty: it failed, with a warning.
/// A failure is kept until the end, because all ranks make the same calls. A rank that left early
/// would leave the others in a broadcast. The temporary name keeps a part of a copy from looking
/// like a checkpoint.
fs::path fetch(const Comm& comm, int owner, const LocalState& from, const fs::path& folder,
               std::vector<std::string>& warnings) {
  constexpr std::int64_t kPiece = 16 << 20;
  const fs::path to = folder / comm.broadcast(from.file.filename().string(), owner),
                 temporary = temporary_name(to);
  std::optional<InputFile> input;
  std::optional<OutputFile> output;
  std::string failure;
  bool is_full = false;
  const auto attempt = [&](const auto& work) {
    try {
      if (failure.empty()) work();
    } catch (const Error& error) {
      failure = error.what();
      is_full = error.exit_code() == kExitStorage;
    }
  };
  attempt([&] {
    if (comm.rank() == owner) input.emplace(from.file);
    require(comm.rank() != 0 || is_own(folder), "{} is another user's", folder.string());
    if (comm.rank() == 0) output.emplace(temporary, OutputFile::Mode::create);
  });
  // Only the owner has opened the file, so the maximum is its size; 0: it could not.
  const std::int64_t bytes = comm.max(input ? static_cast<std::int64_t>(input->size()) : 0);
  std::vector<char> piece(static_cast<std::size_t>(std::min(bytes, kPiece)));
  for (std::int64_t begin = 0; begin < bytes; begin += kPiece) {
    const std::span<char> part(piece.data(),
                               static_cast<std::size_t>(std::min(kPiece, bytes - begin)));
    attempt([&] {
      if (input) input->read(begin, part);
    });
    comm.broadcast(part, owner);
    attempt([&] {
      if (output) output->write({part.data(), part.size()});
    });
  }
  const std::string sender = comm.broadcast(failure, owner);
  if (failure.empty()) failure = sender;
  std::error_code error;
  attempt([&] {
    if (comm.rank() == 0) fs::rename(temporary, to, error);
    if (error) fail_to("write", to, error.value());
  });
  if (!failure.empty() && comm.rank() == 0) {
    fs::remove(temporary, error);
    warnings.push_back("skipping a state in memory: " + failure);
  }
  agree_on_rank_0(comm, [&] {  // the state is good, but memory is short
    if (is_full) throw Error(failure, kExitStorage);
  });
  return comm.rank() == 0 && failure.empty() ? to : fs::path();
}

/// The device of a run's folder, or of the nearest folder above that is left.
std::string device_of(fs::path place) {
  struct stat status {};
  while (::stat(place.c_str(), &status) != 0 && errno == ENOENT && place.has_relative_path())
    place = place.parent_path();
  return std::to_string(status.st_dev);
}

/// Whether the states in `folder`, which no process uses, are of no use.
bool is_stale(const fs::path& folder) {
  constexpr std::chrono::hours kWeek{7 * 24};
  const std::string text = read_file(folder / kRunFile).value_or("");
  const fs::path place = text;
  std::error_code none;
  // On another device, the run's disk is not mounted, or only in another container.
  if (text.empty() ||
      (is_gone(place) && device_of(place) == read_file(folder / kDeviceFile).value_or("-")))
    return true;
  // sealed() sets this time, so an old one means that no state was written since.
  const auto written = fs::last_write_time(folder / kRunFile, none);
  if (!none && fs::file_time_type::clock::now() - written > kWeek) return true;
  std::int64_t newest = -1;
  if (!is_gone(folder / "states")) newest = KeptStates(folder / "states").newest_step();
  std::string name = newest < 0 ? "" : checkpoint_name(newest);
  for (const fs::path& file : list_checkpoints(folder))
    name = std::max(name, file.filename().string());
  if (name.empty()) return true;
  // Names of checkpoints contain their steps with leading zeros, so their order is that of the
  // steps.
  const std::vector<fs::path> saved = list_checkpoints(place / "checkpoints");
  return !saved.empty() && saved.front().filename().string() >= name;
}

}  // namespace

fs::path StatePlace::folder() const {
  std::error_code none;
  const fs::path whole = fs::weakly_canonical(fs::absolute(place), none);
  return root / fmt::format("{}{:.16}-{:08x}-{}", prefix(), run, hash_of(whole.string()), host);
}

StateMemory::StateMemory(const StatePlace& place) : place_(place), folder_(place.folder()) {}

StateMemory::~StateMemory() {
  if (!has_former_ && !has_state_) remove();
  if (step_ != nullptr) ::munmap(step_, kStepBytes);
  if (lock_ >= 0) ::close(lock_);
}

void StateMemory::open() {
  if (!first()) return;
  if (::mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST) fail_to("create", folder_, errno);
  // Before anything is read or written there. mkdir() does not tell who made a folder that exists.
  require_own(folder_);
  // The ranks of the former start may still be ending.
  constexpr double kMostSeconds = 5;
  const double begin = now_seconds();
  while ((lock_ = lock_of(folder_ / kRunFile, O_RDWR | O_CREAT)) < 0) {
    require(now_seconds() - begin < kMostSeconds, "another process uses {}", folder_.string());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const std::string place = fs::absolute(place_.place).string();
  // This descriptor holds the lock until the destructor. Closing it would open the folder to
  // others.
  if (::ftruncate(lock_, 0) != 0 ||
      ::pwrite(lock_, place.data(), place.size(), 0) != std::ssize(place))
    fail_to("write", folder_ / kRunFile, errno);
  replace_file(folder_ / kDeviceFile, device_of(place));
  remove_stale_temporaries(folder_);
  // find_state() has turned the state of the former start into a checkpoint.
  std::error_code ignored;
  fs::remove(file(), ignored);
  has_former_ = !list_checkpoints(folder_).empty();
}

void StateMemory::begin(std::int64_t step) {
  const char* const supervisor = std::getenv("LOCKSTEP_SUPERVISOR");
  // The name is from the environment, and a slash would lead out of the folder.
  if (!first() || supervisor == nullptr || std::strchr(supervisor, '/') != nullptr) return;
  const fs::path file = folder_ / fmt::format("step.{}", supervisor);
  const std::string place = fs::absolute(place_.place).string();
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) fail_to("write", file, errno);
  // Without reserved memory a store into a full /dev/shm would end the process.
  int error = ::posix_fallocate(descriptor, 0, static_cast<off_t>(kStepBytes + place.size()));
  if (error == 0 && ::pwrite(descriptor, place.data(), place.size(), kStepBytes) < 0) error = errno;
  if (error == 0) {
    void* const data =
        ::mmap(nullptr, kStepBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    error = data == MAP_FAILED ? errno : 0;
    if (error == 0) step_ = data;
  }
  ::close(descriptor);
  if (error != 0) fail_to("write", file, error);
  finished(step);
}

void StateMemory::sealed() {
  if (!first()) return;
  has_state_ = true;
  ::futimens(lock_, nullptr);  // for is_stale()
  std::error_code ignored;
  // Until now the former state was the only one. A start that failed earlier would have needed it.
  if (!std::exchange(has_former_, false)) return;
  for (const fs::path& file : list_checkpoints(folder_)) fs::remove(file, ignored);
}

void StateMemory::finished(std::int64_t step) const {
  if (step_ == nullptr) return;
  // Two stores that no reader sees by half; the first changes every ten million steps.
  const std::string text = fmt::format("{:015}\n", step);
  std::array<std::uint64_t, 2> words;
  std::memcpy(words.data(), text.data(), kStepBytes);
  auto* const file = static_cast<std::uint64_t*>(step_);
  for (std::size_t i = 0; i < words.size(); ++i)
    std::atomic_ref(file[i]).store(words[i], std::memory_order_relaxed);
}

void StateMemory::remove() {
  std::error_code ignored;
  if (first() && lock_ >= 0) fs::remove_all(folder_, ignored);
}

std::unique_ptr<StateMemory> open_state_memory(const Comm& comm, const std::string& run,
                                               const std::string& place, std::string& problem) {
  auto memory =
      std::make_unique<StateMemory>(StatePlace{run, place, host_name(), comm.node().rank() == 0});
  std::string own;
  try {
    memory->open();
  } catch (const Error& error) {
    own = error.what();
  }
  // Now, because it leaves what a process uses: this run may resume from an old state.
  if (memory->first()) remove_stale_states();
  memory->everywhere(comm.max(!own.empty()) == 0);
  for (std::string& text : comm.gather(own))
    if (!text.empty()) problem = std::move(text);
  return memory;
}

FoundState find_state(const Comm& comm, StatePlace place, std::int64_t after) {
  place.run = comm.broadcast(place.run);
  after = comm.max(comm.rank() == 0 ? after : -1);
  FoundState found;
  if (place.run.empty()) return found;
  const fs::path folder = place.folder();
  LocalState own;
  std::vector<std::string> warnings;
  agree(comm, [&] {
    if (place.first) own = newest_of(folder, place.run, after, warnings);
  });
  const auto mine = static_cast<std::uint64_t>(own.step);
  const std::vector<std::uint64_t> steps = comm.of_all(mine);
  for (std::string& line : comm.gather(fmt::format("{}", fmt::join(warnings, "\n"))))
    if (!line.empty()) found.warnings.push_back(std::move(line));
  // The first of several equal steps. If rank 0's host has the newest state, nothing is copied.
  const auto newest = std::ranges::max_element(steps);
  if (*newest == 0) return found;
  const int owner = static_cast<int>(newest - steps.begin());
  if (owner == 0) {
    found.file = own.file;
    return found;
  }
  if (comm.rank() == 0) ::mkdir(folder.c_str(), 0700);  // what is there already may be unusable
  found.file = fetch(comm, owner, own, folder, found.warnings);
  return found;
}

void remove_stale_states(const fs::path& root) {
  std::error_code error;
  for (fs::directory_iterator entry(root, error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path folder = entry->path();
    if (!folder.filename().string().starts_with(prefix()) || !is_own(folder)) continue;
    const int lock = lock_of(folder / kRunFile, O_RDWR);
    if (lock < 0) continue;  // a process trains it, or is about to
    std::error_code ignored;
    try {
      if (is_stale(folder)) fs::remove_all(folder, ignored);
    } catch (const std::exception&) {  // what cannot be read may be of use
    }
    ::close(lock);
  }
}

}  // namespace lockstep
