// Reading of image files: whole, or only the header and the end for a check.
#include <algorithm>
#include <cerrno>
#include <string_view>

#include "src/base/crc32c.h"
#include "src/base/text.h"
#include "src/data/image/image.h"
#include "src/data/image/image_index.h"
#include "src/files/file.h"
#include "src/files/number_at.h"

namespace lockstep {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// Throws MissingImage for causes that waiting does not mend, and UnreadableFile for others: such a
/// file is not to be left out.
InputFile open_image(const std::filesystem::path& path) {
  try {
    return InputFile(path);
  } catch (const UnreadableFile& error) {
    const std::string text = one_line(error.what());
    for (const int lasting : {ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG, EACCES, EPERM, ENXIO})
      if (error.cause() == lasting) throw MissingImage(text + ", or restore it.");
    throw UnreadableFile(text, error.cause());
  } catch (const Error&) {
    throw MissingImage(one_line(path.string()) +
                       " is not a regular file. Move it out of the folder.");
  }
}

/// The size of a file that may be decoded.
std::int64_t size_of(const InputFile& file) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
  if (file.size() > kMost) throw DamagedImage(file.path().string(), "it is longer than 1 GiB");
  return file.size();
}

/// A file that is cut meanwhile is a damaged image.
Bytes read(const InputFile& file, std::int64_t begin, std::int64_t count) {
  Bytes bytes(count);
  try {
    file.read(begin, {reinterpret_cast<char*>(bytes.data()), bytes.size()});
  } catch (const UnreadableFile&) {
    throw;
  } catch (const Error&) {
    throw DamagedImage(file.path().string(), "it was truncated while it was read");
  }
  return bytes;
}

std::string_view as_text(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Whether a file of `size` bytes ends as a whole file of its format does.
bool ends_well(std::span<const std::uint8_t> head, std::span<const std::uint8_t> end,
               std::int64_t size) {
  const std::string_view begin = as_text(head), last = as_text(end);
  const auto number = [&](std::size_t at) -> std::int64_t {
    return number_at<std::uint32_t>(begin, at);
  };
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
  return crc32c(as_text(end), crc32c(as_text(head)));
}

}  // namespace

std::uint32_t checksum_of_ends(std::span<const std::uint8_t> file) {
  return checksum_of(file.first(std::min<std::size_t>(file.size(), kHead)),
                     file.last(std::min<std::size_t>(file.size(), kEnd)));
}

Bytes read_image_bytes(const std::filesystem::path& path) {
  const InputFile file = open_image(path);
  return read(file, 0, size_of(file));
}

Image read_image(const std::filesystem::path& path) {
  return decode_image(read_image_bytes(path), path.string());
}

std::uint32_t check_image(const std::filesystem::path& path, bool whole) {
  const std::string name = path.string();
  const InputFile file = open_image(path);
  const std::int64_t size = size_of(file);
  if (!whole) {
    // Two reads of a few kilobytes find most damage: a header that is none, and a file that was
    // cut. A file that fails either is read as a whole. Its header may be long, or data may follow
    // its end.
    const Bytes head = read(file, 0, std::min(size, kHead));
    bool good = true;
    try {
      image_size(head, name);
    } catch (const DamagedImage&) {  // its header may be longer
      if (size <= kHead) throw;
      good = false;
    }
    const std::int64_t end = std::max<std::int64_t>(size - kEnd, 0);
    const Bytes last = read(file, end, size - end);
    if (good && ends_well(head, last, size)) return checksum_of(head, last);
  }
  const Bytes all = read(file, 0, size);
  if (!whole && ends_well(all, all, size)) {  // its header is longer than kHead
    image_size(all, name);
  } else {
    decode_image(all, name);
  }
  return checksum_of_ends(all);
}

}  // namespace lockstep
