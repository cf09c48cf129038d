#include "src/data/sets/data_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <vector>

#include "src/base/check.h"
#include "src/base/crc32c.h"
#include "src/data/sets/data_folder.h"
#include "src/files/file.h"

namespace lockstep {
namespace {

std::int64_t modified(const struct stat& status) {
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

constexpr const char* kLook = "Check the disk or the network file system.";
constexpr const char* kRestore = "Restore the file and run the same command again.";

}  // namespace

DataFile::DataFile(const std::filesystem::path& path, std::int64_t bytes, std::string_view advice,
                   const Part& each)
    : path_(path), bytes_(bytes) {
  // O_NONBLOCK: opening a named pipe would wait for a writer. It means nothing for regular files.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) fail_to_open(path, errno, advice);
  try {
    const struct stat now = status();
    require(S_ISREG(now.st_mode), "{} is not a regular file. {}", path.string(), advice);
    require(now.st_size == bytes, "{} contains {} bytes, not {}: it is {}. {}", path.string(),
            now.st_size, bytes, now.st_size < bytes ? "truncated" : "another file", advice);
    time_ = modified(now);
    checksum_ = checksum_now(each);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

DataFile::~DataFile() { ::close(descriptor_); }

void DataFile::read(std::int64_t offset, std::span<std::uint8_t> to) const {
  fill(offset, to);
  require_unchanged();  // after the bytes, so that an earlier change is noticed
}

std::uint32_t DataFile::checksum_now(const Part& each) const {
  std::vector<std::uint8_t> part(1 << 20);
  std::uint32_t checksum = 0;
  for (std::int64_t offset = 0; offset < bytes_; offset += std::ssize(part)) {
    part.resize(static_cast<std::size_t>(std::min(std::ssize(part), bytes_ - offset)));
    fill(offset, part);
    if (each) each(offset, part);
    checksum = crc32c({reinterpret_cast<const char*>(part.data()), part.size()}, checksum);
  }
  return checksum;
}

void DataFile::fill(std::int64_t offset, std::span<std::uint8_t> to) const {
  const std::int64_t got =
      read_at(descriptor_, offset, {reinterpret_cast<char*>(to.data()), to.size()});
  require(got >= 0, "cannot read {}: {}. {}", path_.string(), std::strerror(errno), kLook);
  if (got == std::ssize(to)) return;
  const std::int64_t left = status().st_size;
  fail("{} was truncated during the run, from {} to {} bytes. {}", path_.string(), bytes_,
       std::min(left, offset + got), kRestore);
}

struct stat DataFile::status() const {
  struct stat status {};
  require(::fstat(descriptor_, &status) == 0, "cannot examine {}: {}. {}", path_.string(),
          std::strerror(errno), kLook);
  return status;
}

void DataFile::require_unchanged() const {
  const struct stat now = status();
  require(now.st_size == bytes_, "{} changed during the run, from {} to {} bytes. {}",
          path_.string(), bytes_, now.st_size, kRestore);
  const std::int64_t time = modified(now);
  if (time == time_) return;
  const std::lock_guard lock(mutex_);
  if (time == time_) return;  // another thread has looked
  require(checksum_now() == checksum_, "{} has other content than when the run began. {}",
          path_.string(), kRestore);
  time_ = time;
}

}  // namespace lockstep
