#include "apps/record/state_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "apps/record/run_facts.h"
#include "src/base/check.h"
#include "src/base/machine.h"
#include "src/base/text.h"
#include "src/files/file.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kStepBytes = 16;

/// The run whose state `file` is.
std::string run_of(const fs::path& file, const CheckpointMetadata& metadata) {
  return RunFacts::of(file, metadata).text("id");
}

/// The newest whole state of `run` after `after` in a folder.
struct LocalState {
  fs::path file;
  std::int64_t step = 0, bytes = 0;
};

LocalState newest_of(const fs::path& folder, const std::string& run, std::int64_t after,
                     std::vector<std::string>& warnings) {
  for (const fs::path& file : list_checkpoints(folder)) {
    try {
      const Checkpoint state(file);
      const std::int64_t step = state.metadata().position.step;
      if (run_of(file, state.metadata()) != run || step <= after) continue;
      state.verify();
      return {file, step, static_cast<std::int64_t>(InputFile(file).size())};
    } catch (const UnreadableFile&) {
      throw;
    } catch (const Error& error) {
      warnings.push_back(
          fmt::format("skipping a state in the memory of {}: {}", host_name(), error.what()));
    }
  }
  return {};
}

/// Collective. Copies `from` of rank `owner` into the folder of rank 0's host, piece by piece. The
/// copy's path on rank 0; empty: it failed, with a warning.
fs::path fetch(const Comm& comm, int owner, const LocalState& from, const fs::path& folder,
               std::vector<std::string>& warnings) {
  constexpr std::int64_t kPiece = 16 << 20;
  const std::int64_t bytes = comm.max(comm.rank() == owner ? from.bytes : 0);
  const fs::path to = folder / comm.broadcast(from.file.filename().string(), owner),
                 temporary = temporary_name(to);
  std::optional<InputFile> input;
  std::optional<OutputFile> output;
  std::string failure;
  std::vector<char> piece(static_cast<std::size_t>(std::min(bytes, kPiece)));
  const auto attempt = [&](const auto& work) {
    try {
      if (failure.empty()) work();
    } catch (const Error& error) {
      failure = error.what();
    }
  };
  attempt([&] {
    if (comm.rank() == owner) input.emplace(from.file);
    if (comm.rank() == 0) output.emplace(temporary, OutputFile::Mode::create);
  });
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
  if (comm.rank() != 0) return {};
  if (failure.empty()) failure = sender;
  attempt([&] {
    std::error_code error;
    fs::rename(temporary, to, error);
    if (error) fail_to("write", to, error.value());
  });
  if (failure.empty()) return to;
  std::error_code ignored;
  fs::remove(temporary, ignored);
  warnings.push_back("skipping a state in memory: " + failure);
  return {};
}

}  // namespace

StateMemory::StateMemory(const std::string& name, const std::string& host, bool first,
                         const fs::path& root)
    : folder_(root / fmt::format("{}-{}", name, host)), first_(first) {}

StateMemory::~StateMemory() {
  if (step_ != nullptr) ::munmap(step_, kStepBytes);
}

void StateMemory::open() const {
  if (!first_) return;
  if (::mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST) fail_to("create", folder_, errno);
  struct stat status {};
  if (::lstat(folder_.c_str(), &status) != 0) fail_to("examine", folder_, errno);
  require(S_ISDIR(status.st_mode) && status.st_uid == ::geteuid() && (status.st_mode & 077) == 0,
          "{} is not a folder that only this user may enter. Remove it, or set another "
          "LOCKSTEP_MEMORY.",
          folder_.string());
}

void StateMemory::begin(const std::string& run, std::int64_t step) {
  if (!first_) return;
  remove_stale_temporaries(folder_);
  for (const fs::path& file : list_checkpoints(folder_)) {
    bool keeps = false;
    try {
      const CheckpointMetadata metadata = read_metadata(file);
      keeps = metadata.position.step <= step && run_of(file, metadata) == run;
    } catch (const UnreadableFile&) {
      throw;
    } catch (const Error&) {  // damaged: find_state() has warned
    }
    std::error_code ignored;
    if (!keeps) fs::remove(file, ignored);
  }
  const fs::path file = folder_ / "step";
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) fail_to("write", file, errno);
  // Without reserved memory a store into a full /dev/shm would end the process.
  int error = ::posix_fallocate(descriptor, 0, kStepBytes);
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

void StateMemory::write(const Layout& layout, const std::vector<ConstSection>& sections,
                        const CheckpointMetadata& metadata) const {
  if (!first_) return;
  const std::vector<fs::path> before = list_checkpoints(folder_);
  std::error_code ignored;
  for (std::size_t i = 1; i < before.size(); ++i) fs::remove(before[i], ignored);
  save_checkpoint(folder_, layout, sections, metadata);
}

void StateMemory::finished(std::int64_t step) const {
  if (step_ == nullptr) return;
  // Two stores that no reader sees by half; the first changes every ten million steps.
  std::array<char, kStepBytes> text;
  for (std::size_t i = kStepBytes - 1; i-- > 0; step /= 10)
    text[i] = static_cast<char>('0' + step % 10);
  text.back() = '\n';
  const auto words = std::bit_cast<std::array<std::uint64_t, 2>>(text);
  auto* const file = static_cast<std::uint64_t*>(step_);
  for (std::size_t i = 0; i < words.size(); ++i)
    std::atomic_ref(file[i]).store(words[i], std::memory_order_relaxed);
}

void StateMemory::remove() const {
  std::error_code ignored;
  if (first_) fs::remove_all(folder_, ignored);
}

std::unique_ptr<StateMemory> open_state_memory(const Comm& comm) {
  const char* const variable = std::getenv("LOCKSTEP_MEMORY");
  const std::string name = comm.broadcast(variable ? variable : "");
  if (name.empty()) return nullptr;
  std::unique_ptr<StateMemory> memory;
  const bool first = comm.node().rank() == 0;
  agree(comm, [&] {
    constexpr std::size_t kLongest = 100;
    const bool valid = name.size() <= kLongest && std::all_of(name.begin(), name.end(), [](char c) {
                         return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' ||
                                c == '_' || c == '-';
                       });
    if (!valid) {
      fail_usage(
          "LOCKSTEP_MEMORY is \"{}\". Set a name of at most {} letters, digits, dots, dashes and "
          "underscores.",
          printable(name), kLongest);
    }
    memory = std::make_unique<StateMemory>(name, host_name(), first);
    memory->open();
  });
  return memory;
}

FoundState find_state(const Comm& comm, const StateMemory& memory, std::string run,
                      std::int64_t after) {
  run = comm.broadcast(run);
  after = comm.max(comm.rank() == 0 ? after : -1);
  FoundState found;
  if (run.empty()) return found;
  LocalState own;
  std::vector<std::string> warnings;
  agree(comm, [&] {
    if (memory.first()) own = newest_of(memory.folder(), run, after, warnings);
  });
  const auto mine = static_cast<std::uint64_t>(own.step);
  const std::vector<std::uint64_t> steps = comm.all_gather(std::span(&mine, 1));
  for (std::string& line : comm.gather(fmt::format("{}", fmt::join(warnings, "\n"))))
    if (!line.empty()) found.warnings.push_back(std::move(line));
  const auto newest = std::max_element(steps.begin(), steps.end());
  if (*newest == 0) return found;
  const int owner = static_cast<int>(newest - steps.begin());
  found.file = owner == 0 ? own.file : fetch(comm, owner, own, memory.folder(), found.warnings);
  return found;
}

}  // namespace lockstep
