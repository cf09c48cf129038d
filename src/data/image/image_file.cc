// Reading of image files: whole, or only the header and the end for a check.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "src/base/check.h"
#include "src/base/crc32c.h"
#include "src/base/text.h"
#include "src/data/image/formats.h"
#include "src/data/image/image_index.h"
#include "src/files/file.h"

namespace lockstep {
namespace {

using Bytes = std::vector<std::uint8_t>;

class OpenFile {
 public:
  explicit OpenFile(const std::filesystem::path& path) : name_(path.string()) {
    constexpr std::int64_t kMost = std::int64_t{1} << 30;
    // O_NONBLOCK: opening a pipe would wait for its writer.
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor_ < 0) refuse("cannot be opened");
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
      ::close(descriptor_);
      throw MissingImage(one_line(name_) + " is not a regular file. Move it out of the folder.");
    }
    size_ = status.st_size;
    if (size_ > kMost) {
      ::close(descriptor_);
      fail_image(name_, "it is longer than 1 GiB");
    }
  }
  ~OpenFile() { ::close(descriptor_); }
  OpenFile& operator=(OpenFile&&) = delete;  ///< neither copied nor moved

  std::int64_t size() const { return size_; }
  /// `count` bytes from `begin` on; fewer if the file is cut meanwhile, which its decoder finds.
  Bytes read(std::int64_t begin, std::int64_t count) const {
    Bytes bytes(count);
    const std::int64_t got =
        read_at(descriptor_, begin, {reinterpret_cast<char*>(bytes.data()), bytes.size()});
    if (got < 0) refuse("cannot be read");
    bytes.resize(got);
    return bytes;
  }

 private:
  /// Names the cause, which may be for a while: then the file is not to be left out.
  [[noreturn]] void refuse(const char* what) const {
    const int error = errno;
    const std::string name = one_line(name_);
    if (error == ENOENT)
      throw MissingImage(name + " does not exist. Correct its name, or restore it.");
    const std::string fact = fmt::format("{} {}: {}", name, what, std::strerror(error));
    if (error == EMFILE || error == ENFILE)
      fail("{}. Raise the limit of open files (ulimit -n).", fact);
    for (const int lasting : {ENOTDIR, ELOOP, ENAMETOOLONG, EACCES, EPERM, ENXIO})
      if (error == lasting) throw MissingImage(fact + ". Restore it or its permissions.");
    fail("{}. Check the disk or the network file system.", fact);
  }

  std::string name_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
};

std::string_view text_of(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Whether a file of `size` bytes ends as a whole file of its format does.
bool ends_well(std::span<const std::uint8_t> head, std::span<const std::uint8_t> end,
               std::int64_t size) {
  const auto number = [&](std::size_t at) {
    std::int64_t value = 0;
    for (std::size_t i = 0; i < 4 && at + i < head.size(); ++i)
      value |= std::int64_t{head[at + i]} << 8 * i;
    return value;
  };
  const std::string_view begin = text_of(head), last = text_of(end);
  if (begin.starts_with("\xff\xd8")) return last.ends_with("\xff\xd9");
  if (begin.starts_with("\x89PNG")) return last.ends_with("IEND\xae\x42\x60\x82");
  if (begin.starts_with("GIF")) return last.ends_with(";");
  if (begin.starts_with("II") || begin.starts_with("MM")) return true;  // tiff_reader() has looked
  if (begin.find("ftyp") == 4) {  // HEIC and AVIF are boxes, which begin with their sizes
    std::int64_t at = 0, box = 1;
    for (; box > 0 && at + 4 <= std::ssize(head); at += box)
      box = std::int64_t{head[at]} << 24 | head[at + 1] << 16 | head[at + 2] << 8 | head[at + 3];
    return at == size;
  }
  if (begin.starts_with("BM")) return number(2) <= size && number(2) > number(10);
  return begin.starts_with("RIFF") && number(4) + 8 <= size;
}

constexpr std::int64_t kHead = 4096, kEnd = 4096;  ///< bytes that the check reads

std::uint32_t checksum_of(std::span<const std::uint8_t> head, std::span<const std::uint8_t> end) {
  return crc32c(text_of(end), crc32c(text_of(head)));
}

}  // namespace

std::uint32_t checksum_of_ends(std::span<const std::uint8_t> file) {
  return checksum_of(file.first(std::min<std::size_t>(file.size(), kHead)),
                     file.last(std::min<std::size_t>(file.size(), kEnd)));
}

Bytes read_image_bytes(const std::filesystem::path& path) {
  const OpenFile file(path);
  return file.read(0, file.size());
}

Image read_image(const std::filesystem::path& path) {
  return decode_image(read_image_bytes(path), path.string());
}

std::uint32_t check_image(const std::filesystem::path& path, bool whole) {
  const std::string name = path.string();
  const OpenFile file(path);
  const std::int64_t size = file.size();
  if (!whole) {
    const Bytes head = file.read(0, std::min(size, kHead));
    bool good = true;
    try {
      image_size(head, name);
    } catch (const DamagedImage&) {  // its header may be longer
      if (size <= kHead) throw;
      good = false;
    }
    const std::int64_t end = std::max<std::int64_t>(size - kEnd, 0);
    const Bytes last = file.read(end, size - end);
    if (good && ends_well(head, last, size)) return checksum_of(head, last);
  }
  const Bytes all = file.read(0, size);
  if (!whole && ends_well(all, all, size)) {  // its header is longer than kHead
    image_size(all, name);
  } else {
    decode_image(all, name);
  }
  return checksum_of_ends(all);
}

}  // namespace lockstep
