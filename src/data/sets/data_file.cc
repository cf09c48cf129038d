#include "src/data/sets/data_file.h"

#include <algorithm>
#include <vector>

#include "src/base/check.h"
#include "src/data/checksum.h"
#include "src/data/sets/data_folder.h"

namespace lockstep {
namespace {

std::int64_t modified(const struct stat& status) {
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

constexpr const char* kRestore = "Restore the file and run the same command again.";

InputFile open_file(const std::filesystem::path& path, std::string_view advice) {
  try {
    return InputFile(path);
  } catch (const UnreadableFile& error) {
    fail_to_open(path, error.cause(), advice);
  } catch (const Error&) {
    fail("{} is not a regular file. {}", path.string(), advice);
  }
}

std::span<char> as_text(std::span<std::uint8_t> bytes) {
  return {reinterpret_cast<char*>(bytes.data()), bytes.size()};
}

}  // namespace

DataFile::DataFile(const std::filesystem::path& path, std::int64_t bytes, std::string_view advice,
                   const Part& each)
    : file_(open_file(path, advice)), time_(modified(file_.status())) {
  const std::int64_t size = file_.size();
  require(size == bytes, "{} contains {} bytes, not {}: it is {}. {}", path.string(), size, bytes,
          size < bytes ? "truncated" : "another file", advice);
  checksum_ = checksum_now(each);
}

void DataFile::read(std::int64_t offset, std::span<std::uint8_t> to) const {
  file_.read(offset, as_text(to));
  const struct stat now = file_.status();  // after the bytes, so that an earlier change is noticed
  require(now.st_size == static_cast<off_t>(file_.size()),
          "{} changed during the run, from {} to {} bytes. {}", file_.path().string(), file_.size(),
          now.st_size, kRestore);
  const std::int64_t time = modified(now);
  if (time == time_) return;
  // The checksum costs a read of the whole file. So one thread computes it, and the others wait for
  // the result.
  const std::lock_guard lock(mutex_);
  if (time == time_) return;  // another thread has looked
  require(checksum_now() == checksum_, "{} has other content than when the run began. {}",
          file_.path().string(), kRestore);
  time_ = time;
}

std::uint32_t DataFile::checksum_now(const Part& each) const {
  std::vector<std::uint8_t> part(1 << 20);
  std::uint32_t checksum = 0;
  const std::int64_t bytes = file_.size();
  for (std::int64_t offset = 0; offset < bytes; offset += std::ssize(part)) {
    part.resize(std::min(std::ssize(part), bytes - offset));
    file_.read(offset, as_text(part));
    if (each) each(offset, part);
    checksum = crc32c_of(part, checksum);
  }
  return checksum;
}

}  // namespace lockstep
