#include "src/files/zip.h"

#include <zlib.h>

#include <algorithm>
#include <vector>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/files/number_at.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kLongestDirectory = 100'000'000;

struct Directory {
  std::uint64_t begin = 0, size = 0;
};

/// The list of all members stands before the end of the archive (APPNOTE.TXT, 4.3.14 to 4.3.16).
Directory find_directory(const InputFile& archive) {
  constexpr std::uint64_t kEnd = 22, kLocator = 20, kEnd64 = 56, kLongestComment = 0xffff;
  // The record at the end has a comment of variable length, so its begin is only known by its mark.
  // The last mark counts, because members can contain the mark too.
  const std::uint64_t size = std::min(archive.size(), kLocator + kEnd + kLongestComment);
  const std::string tail = archive.bytes(archive.size() - size, size);
  const std::size_t end = tail.rfind("PK\5\6");
  require(end != tail.npos && tail.size() - end >= kEnd, "its end is missing");
  Directory directory{number_at<std::uint32_t>(tail, end + 16),
                      number_at<std::uint32_t>(tail, end + 12)};
  // An archive with numbers above 32 bits has a wider record, and its locator in front of the short
  // one.
  if (end >= kLocator && tail.compare(end - kLocator, 4, "PK\6\7") == 0) {  // ZIP64
    const auto at = number_at<std::uint64_t>(tail, end - kLocator + 8);
    require(at <= archive.size() && archive.size() - at >= kEnd64, "its end is missing");
    const std::string record = archive.bytes(at, kEnd64);
    require(record.starts_with("PK\6\6"), "its end is missing");
    directory = {number_at<std::uint64_t>(record, 48), number_at<std::uint64_t>(record, 40)};
  }
  require(directory.begin <= archive.size() &&
              directory.size <= std::min(archive.size() - directory.begin, kLongestDirectory),
          "its directory lies outside of it");
  return directory;
}

/// An entry of the directory (4.3.12).
struct Entry {
  std::string name;
  FilePart member;
  std::uint64_t header = 0;  ///< where the member begins, with a header of its own
  bool stored = true;        ///< neither compressed nor encrypted
};

/// Replaces the sizes that have more than 32 bits (4.5.3).
void widen(std::string_view extra, std::initializer_list<std::uint64_t*> values) {
  while (extra.size() >= 4) {
    const auto kind = number_at<std::uint16_t>(extra, 0);
    const std::size_t size = number_at<std::uint16_t>(extra, 2);
    std::string_view field = extra.substr(4, size);
    extra.remove_prefix(std::min(extra.size(), size + 4));
    if (kind != 1) continue;
    for (std::uint64_t* value : values) {
      if (*value != 0xffffffff) continue;
      *value = number_at<std::uint64_t>(field, 0);
      field.remove_prefix(std::min<std::size_t>(field.size(), 8));
    }
  }
}

/// Removes an entry from the beginning of `directory`.
Entry take_entry(std::string_view& directory) {
  constexpr std::size_t kHeader = 46;
  const std::size_t name = number_at<std::uint16_t>(directory, 28),
                    extra = number_at<std::uint16_t>(directory, 30),
                    size = kHeader + name + extra + number_at<std::uint16_t>(directory, 32);
  require(directory.starts_with("PK\1\2") && size <= directory.size(), "its directory is damaged");
  Entry entry{.name = std::string(directory.substr(kHeader, name)),
              .member = {.crc32 = number_at<std::uint32_t>(directory, 16)},
              .header = number_at<std::uint32_t>(directory, 42)};
  std::uint64_t stored = number_at<std::uint32_t>(directory, 20);
  std::uint64_t& bytes = entry.member.end = number_at<std::uint32_t>(directory, 24);
  // The extra field has only those values that did not fit, in the order of this list.
  widen(directory.substr(kHeader + name, extra), {&bytes, &stored, &entry.header});
  const bool encrypted = number_at<std::uint16_t>(directory, 8) & 1;
  entry.stored = number_at<std::uint16_t>(directory, 10) == 0 && !encrypted && stored == bytes;
  directory.remove_prefix(size);
  return entry;
}

/// Sets where the bytes of an entry lie. `limit`: where the directory begins.
void locate(const InputFile& archive, std::uint64_t limit, Entry& entry) {
  constexpr std::uint64_t kHeader = 30;  // 4.3.7
  // The place follows from the header in front of the member. Its extra field may be longer than
  // the one in the directory: PyTorch pads it to align the numbers.
  const std::uint64_t bytes = entry.member.end;
  require(entry.header <= limit && limit - entry.header >= kHeader && bytes <= limit,
          "{} lies outside of it", one_line(entry.name));
  const std::string header = archive.bytes(entry.header, kHeader);
  require(header.starts_with("PK\3\4"), "{} is damaged", one_line(entry.name));
  const std::uint64_t begin = entry.header + kHeader + number_at<std::uint16_t>(header, 26) +
                              number_at<std::uint16_t>(header, 28);
  require(begin <= limit - bytes, "{} lies outside of it", one_line(entry.name));
  entry.member.begin = begin;
  entry.member.end = begin + bytes;
}

}  // namespace

std::map<std::string, FilePart> zip_members(const InputFile& archive) {
  const Directory directory = find_directory(archive);
  const std::string bytes = archive.bytes(directory.begin, directory.size);
  std::map<std::string, FilePart> members;
  std::map<std::uint64_t, std::uint64_t> places;  // begin and end
  for (std::string_view rest = bytes; !rest.empty();) {
    Entry entry = take_entry(rest);
    if (!entry.stored) continue;
    locate(archive, directory.begin, entry);
    places[entry.header] = entry.member.end;
    require(members.emplace(entry.name, entry.member).second, "{} is in it twice",
            one_line(entry.name));
  }
  // TensorFile finds the part around a byte by where parts begin, so they must be disjoint. It also
  // bounds what an archive can ask a reader to load: no byte counts twice.
  require(places.size() == members.size(), "two of its members overlap");
  std::uint64_t end = 0;
  for (const auto& [begin, next] : places) {
    require(begin >= end, "two of its members overlap");
    end = next;
  }
  return members;
}

std::uint32_t crc32_of(const InputFile& input, std::uint64_t begin, std::uint64_t end) {
  constexpr std::uint64_t kPiece = 1 << 20;
  uLong crc = 0;
  std::string bytes;
  for (; begin < end; begin += bytes.size()) {
    bytes.resize(std::min(kPiece, end - begin));
    input.read(begin, bytes);
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  }
  return crc;
}

}  // namespace lockstep
