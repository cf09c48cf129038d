// Output files use system calls, because iostreams lose errno and an error needs it.
#include "src/files/file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <regex>
#include <system_error>
#include <thread>
#include <utility>

#include "src/base/check.h"
#include "src/base/crc32c.h"
#include "src/base/machine.h"
#include "src/base/process.h"
#include "src/base/text.h"

namespace lockstep {

std::string_view advice(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "free some space, or choose a directory on another file system";
    case EFBIG:
      return "raise the limit on the size of files (ulimit -f)";
    case EACCES:
    case EPERM:
    case EROFS:
      return "choose a directory that you may write to";
    case ENOENT:
    case ENOTDIR:
      return "create its directory first, or choose another directory";
    case EEXIST:
      return "choose another name";
    case EIO:
      return "check the disk or the network file system";
    case EMFILE:
    case ENFILE:
      return "raise the limit on open files (ulimit -n)";
    case ENOMEM:
      return "free some memory";
    default:
      return "choose another path";
  }
}

static int exit_code_of(int cause) {
  if (cause == EBUSY) return kExitInUse;
  return cause == EIO || cause == ESTALE ? kExitStorage : kExitFailure;
}

UnreadableFile::UnreadableFile(const std::string& message, int cause)
    : Error(message, exit_code_of(cause)), cause_(cause) {}

void fail_to_read(const std::filesystem::path& path, int error) {
  const bool scarce = error == EMFILE || error == ENFILE || error == ENOMEM;
  std::string_view fix = advice(scarce ? error : EIO);
  if (error == ENOENT || error == ENOTDIR || error == ELOOP) fix = "check its name";
  if (error == EACCES || error == EPERM) fix = "check its permissions";
  throw UnreadableFile(
      fmt::format("cannot read {}: {}; {}", path.string(), std::strerror(error), fix), error);
}

// pread() leaves the place of the descriptor as it is, so threads can share one. It may return
// fewer bytes than it should: only 0 is the end of the file.
std::int64_t read_at(int descriptor, std::int64_t begin, std::span<char> to) {
  std::size_t done = 0;
  while (done < to.size()) {
    const ssize_t got = ::pread(descriptor, to.data() + done, to.size() - done, begin + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    done += got;
  }
  return done;
}

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
  // O_NONBLOCK: opening a pipe would wait for a writer.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) fail_to_read(path_, errno);
  try {
    // The open file is examined, not its path, which can name another file by now.
    const struct stat now = status();
    require(S_ISREG(now.st_mode), "cannot read {}: it is not a file; choose a file",
            path_.string());
    size_ = now.st_size;
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

InputFile::~InputFile() { ::close(descriptor_); }

struct stat InputFile::status() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail_to_read(path_, errno);
  return status;
}

void InputFile::read(std::uint64_t begin, std::span<char> to) const {
  const std::int64_t got = read_at(descriptor_, begin, to);
  if (got < 0) fail_to_read(path_, errno);
  require(got == std::ssize(to), "{} was truncated while it was read. Restore it.", path_.string());
}

std::optional<std::string> read_file(const std::filesystem::path& path, std::uint64_t most) {
  std::error_code ignored;
  const auto type = std::filesystem::status(path, ignored).type();
  using enum std::filesystem::file_type;
  // none and unknown: the system has refused to examine the file. Then its error comes from the
  // open.
  if (type != regular && type != none && type != unknown) return {};
  try {
    const InputFile file(path);
    std::string text(std::min(file.size(), most), '\0');
    file.read(0, text);
    return text;
  } catch (const UnreadableFile& error) {
    // The file has vanished since it was examined.
    if (error.cause() == ENOENT || error.cause() == ENOTDIR) return {};
    throw;
  }
}

bool is_gone(const std::filesystem::path& file) {
  std::error_code error;
  return std::filesystem::status(file, error).type() == std::filesystem::file_type::not_found;
}

std::optional<FileStamp> stamp_of(const std::filesystem::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return {};
  return FileStamp(file, status.st_ino, status.st_size, status.st_mtim.tv_sec,
                   status.st_mtim.tv_nsec);
}

namespace {

/// Whether a process of this machine has the file open for writing: then the kernel refuses a lease
/// for reading (fcntl(2)). False for network file systems, which refuse leases for other reasons.
bool is_open_for_writing(int descriptor) {
  struct statfs system {};
  if (::fstatfs(descriptor, &system) != 0) return false;
  constexpr unsigned kNetwork[] = {0x6969, 0x517B, 0xFF534D42, 0xFE534D42};  // NFS, SMB: statfs(2)
  if (std::ranges::count(kNetwork, static_cast<unsigned>(system.f_type)) > 0) return false;
  // A process that opens the file meanwhile sends a signal to this one. SIGURG does nothing, but
  // SIGIO, the default, would end it.
  if (::fcntl(descriptor, F_SETSIG, SIGURG) != 0) return false;
  // Another user's file refuses a lease with EACCES, which says nothing about writers. The close of
  // the descriptor returns the lease.
  return ::fcntl(descriptor, F_SETLEASE, F_RDLCK) != 0 && errno == EAGAIN;
}

[[noreturn]] void fail_for_writer(const std::filesystem::path& file) {
  throw UnreadableFile(fmt::format("{} cannot be read now: another program has it open for "
                                   "writing. Close it, then run the same command again.",
                                   file.string()),
                       EBUSY);
}

}  // namespace

void require_no_writer(const std::filesystem::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return;
  // The lock of HDF5, which programs on other machines take too. A lock of fcntl(2) against readers
  // needs a file that is open for writing.
  const bool busy = is_open_for_writing(descriptor) ||
                    (::flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK);
  ::close(descriptor);
  if (busy) fail_for_writer(file);
}

// The kernel knows no writers on other machines. Only a later size or time of the file shows them.
void require_unchanged(const FileStamp& before) {
  const std::filesystem::path& file = std::get<0>(before);
  constexpr int kLooks = 20;
  for (int look = 0; look < kLooks; ++look) {
    require_no_writer(file);  // it opens the file, so that a network file system asks its server
    const std::optional<FileStamp> now = stamp_of(file);
    if (now && *now != before) fail_for_writer(file);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

void fail_to(const char* verb, const std::filesystem::path& path, int error) {
  throw Error(
      fmt::format("cannot {} {}: {}; {}", verb, path.string(), std::strerror(error), advice(error)),
      kExitStorage);
}

void sync_directory(const std::filesystem::path& directory) {
  const std::filesystem::path name = directory.empty() ? "." : directory;
  const int descriptor = ::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail_to("open", name, errno);
  // EINVAL: this file system cannot sync directories.
  const int error = ::fsync(descriptor) != 0 && errno != EINVAL ? errno : 0;
  ::close(descriptor);
  if (error) fail_to("sync", name, error);
}

namespace {

constexpr std::size_t kRandomBytes = 4;  // of a temporary's name

/// 8 digits for process_space().
std::string space_digits() { return fmt::format("{:08x}", crc32c(process_space())); }

void require_regular(const std::filesystem::path& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  require(!std::filesystem::exists(status) || std::filesystem::is_regular_file(status),
          "{} exists and is not a regular file; choose another name", path.string());
}

/// Creates a file beside `path` and removes it. Returns errno; 0: it worked.
int probe_beside(const std::filesystem::path& path) {
  const std::filesystem::path probe = temporary_name(path);
  const int descriptor =
      ::open(probe.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (descriptor < 0) return errno;
  ::close(descriptor);
  ::unlink(probe.c_str());
  return 0;
}

}  // namespace

OutputFile::OutputFile(std::filesystem::path path, Mode mode) : path_(std::move(path)) {
  int how = mode == Mode::extend ? O_APPEND : O_CREAT | O_EXCL | O_NOFOLLOW;
  if (mode == Mode::append) how = O_CREAT | O_APPEND;
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | how, 0666);
  if (descriptor_ < 0) fail_to("write", path_, errno);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void OutputFile::write(std::string_view bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t written = ::write(descriptor_, bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      // Readers expect whole lines and records, so the part that was written goes again. A pipe
      // keeps it. The place moves back too. Otherwise the next write to a new file would leave a
      // hole of zeros there.
      const off_t end =
          ::lseek(descriptor_, 0, SEEK_END);  // fails for a pipe, which keeps the bytes
      const off_t former = end - done;
      if (done > 0 && former >= 0 && ::ftruncate(descriptor_, former) == 0)
        ::lseek(descriptor_, former, SEEK_SET);
      fail_to("write", path_, error);
    }
    done += written;
  }
}

void OutputFile::sync() {
  // EINVAL: not a file on a disk (a pipe, /dev/null).
  if (::fsync(descriptor_) != 0 && errno != EINVAL) fail_to("sync", path_, errno);
}

void OutputFile::close() {
  // close() frees the descriptor even if it fails: never close twice.
  if (::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR)
    fail_to("close", path_, errno);
}

namespace {

/// `name`: ::rename() or publish_file(), which gives the complete temporary its name.
void write_file(const std::filesystem::path& path, std::string_view bytes,
                int (*name)(const char*, const char*)) {
  const std::filesystem::path temporary = temporary_name(path);
  try {
    // The order of these calls protects the old contents. All bytes are on the disk before the name
    // changes. So a power failure leaves the old or the new file. close() comes before it too,
    // because NFS may report a full disk only there.
    OutputFile file(temporary, OutputFile::Mode::create);
    file.write(bytes);
    file.sync();
    file.close();
    if (name(temporary.c_str(), path.c_str()) != 0) fail_to("write", path, errno);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  // The name itself is an entry of the directory, and survives a power failure only after this.
  sync_directory(path.parent_path());
}

}  // namespace

void replace_file(const std::filesystem::path& path, std::string_view bytes) {
  require_regular(path);
  write_file(path, bytes, ::rename);
}

void create_file(const std::filesystem::path& path, std::string_view bytes) {
  write_file(path, bytes, publish_file);
}

int publish_file(const char* temporary, const char* path) {
  if (::link(temporary, path) == 0) return ::unlink(temporary);
  if (errno == EEXIST) return -1;
  // This file system has no links, and perhaps no rename that replaces nothing.
  if (::renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RENAME_NOREPLACE) == 0) return 0;
  return errno == EEXIST ? -1 : ::rename(temporary, path);
}

void require_replaceable(const std::filesystem::path& path) {
  require_regular(path);
  std::error_code ignored;
  require(std::filesystem::exists(path, ignored) ||
              !std::filesystem::is_symlink(std::filesystem::symlink_status(path, ignored)),
          "{} is a link to a file that does not exist; choose another name", path.string());
  if (const int error = probe_beside(path); error != 0) fail_to("write", path, error);
}

std::filesystem::path temporary_name(const std::filesystem::path& path) {
  return fmt::format("{}.tmp-{}-{}-{}{}", path.string(), host_name(), ::getpid(), space_digits(),
                     unique_hex(kRandomBytes));
}

void remove_stale_temporaries(const std::filesystem::path& directory, std::string_view ending) {
  static const std::regex pattern(R"((.*)\.tmp-(.+)-([1-9][0-9]{0,8})-([0-9a-f]{16}))");
  // Two containers may have one host name, so a process number says nothing outside of its space.
  const std::string here = process_space().empty() ? "elsewhere" : space_digits();
  std::error_code ignored;  // a file that vanishes or stays does no harm
  for (std::filesystem::directory_iterator entry(directory, ignored), end; entry != end;
       entry.increment(ignored)) {
    const std::string name = entry->path().filename().string();
    std::smatch match;  // name of the file, host and process of the writer, digits
    if (!std::regex_match(name, match, pattern) || !match.str(1).ends_with(ending)) continue;
    bool stale;
    // In this process space the kernel tells whether the writer lives. Elsewhere only the age of
    // its last write can, and clocks of hosts differ. No write of a living process takes a day.
    if (match[2] == host_name() && match.str(4).starts_with(here)) {
      const auto pid = static_cast<pid_t>(std::stol(match[3]));
      stale = pid == ::getpid() || (::kill(pid, 0) != 0 && errno == ESRCH);
    } else {
      std::error_code gone;
      const auto touched = std::filesystem::last_write_time(entry->path(), gone);
      stale =
          !gone && std::filesystem::file_time_type::clock::now() - touched > std::chrono::hours(24);
    }
    if (stale) std::filesystem::remove(entry->path(), ignored);
  }
}

std::vector<std::filesystem::path> make_directories(const std::filesystem::path& directory,
                                                    std::string_view purpose) {
  std::vector<std::filesystem::path> missing;
  std::error_code error;
  for (auto path = directory; !path.empty() && !std::filesystem::exists(path, error);
       path = path.parent_path()) {
    missing.push_back(path);
    if (path == path.parent_path()) break;
  }
  std::filesystem::create_directories(directory, error);
  if (error) {
    throw Error(fmt::format("cannot create the {} {}: {}; {}", purpose, directory.string(),
                            error.message(), advice(error.value())),
                kExitStorage);
  }
  // A new directory is an entry of its parent.
  for (const std::filesystem::path& path : missing) sync_directory(path.parent_path());
  return missing;
}

std::vector<std::filesystem::path> require_writable_directory(
    const std::filesystem::path& directory, std::string_view purpose) {
  const std::vector<std::filesystem::path> made = make_directories(directory, purpose);
  if (const int error = probe_beside(directory / "probe"); error != 0) {
    throw Error(fmt::format("cannot write to the {} {}: {}; {}", purpose, directory.string(),
                            std::strerror(error), advice(error)),
                kExitStorage);
  }
  return made;
}

}  // namespace lockstep
