// Writing files as torch.save() does, from pickles that a test composes.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/check.h"

namespace lockstep::pickled {

/// The little-endian bytes of a number.
template <class Number>
std::string bytes_of(Number number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}
inline std::string text(std::string_view value) {
  return fmt::format("X{}{}", bytes_of(static_cast<std::uint32_t>(value.size())), value);
}
inline std::string number(std::int32_t value) { return fmt::format("J{}", bytes_of(value)); }
inline std::string name(const std::string& module, const std::string& of) {
  return fmt::format("c{}\n{}\n", module, of);
}
inline std::string tuple(const std::vector<std::string>& values) {
  return fmt::format("({}t", fmt::join(values, ""));
}
inline std::string numbers(const std::vector<std::int32_t>& values) {
  std::vector<std::string> items;
  for (const std::int32_t value : values) items.push_back(number(value));
  return tuple(items);
}
/// `entries`: keys and values in turn.
inline std::string dict(const std::vector<std::string>& entries) {
  return fmt::format("}}({}u", fmt::join(entries, ""));
}
inline std::string call(const std::string& function, const std::vector<std::string>& arguments) {
  return function + tuple(arguments) + "R";
}
/// `part`: "N", or the key, offset and size of a part of the storage.
inline std::string storage(const std::string& type, const std::string& key, std::int32_t count,
                           const std::string& part = "N") {
  return tuple(
             {text("storage"), name("torch", type), text(key), text("cpu"), number(count), part}) +
         "Q";
}
inline std::string tensor(const std::string& of, std::int32_t offset,
                          const std::vector<std::int32_t>& shape,
                          const std::vector<std::int32_t>& strides) {
  return call(name("torch._utils", "_rebuild_tensor_v2"),
              {of, number(offset), numbers(shape), numbers(strides), "\x89", dict({})});
}
inline std::string pickle(const std::string& value) { return "\x80\x02" + value + "."; }

using Members = std::vector<std::pair<std::string, std::string>>;

inline std::string zip(const Members& members) {
  std::string archive, directory;
  for (const auto& [member, bytes] : members) {
    const auto crc = static_cast<std::uint32_t>(
        crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
    const auto size = static_cast<std::uint32_t>(bytes.size());
    const std::string common =
        std::string(4, '\0') + bytes_of(std::uint16_t{0}) + std::string(4, '\0') + bytes_of(crc) +
        bytes_of(size) + bytes_of(size) + bytes_of(static_cast<std::uint16_t>(member.size())) +
        bytes_of(std::uint16_t{0});
    directory += "PK\1\2" + std::string(2, '\0') + common + std::string(10, '\0') +
                 bytes_of(static_cast<std::uint32_t>(archive.size())) + member;
    archive += "PK\3\4" + common + member + bytes;
  }
  const auto count = static_cast<std::uint16_t>(members.size());
  return archive + directory + "PK\5\6" + std::string(4, '\0') + bytes_of(count) + bytes_of(count) +
         bytes_of(static_cast<std::uint32_t>(directory.size())) +
         bytes_of(static_cast<std::uint32_t>(archive.size())) + std::string(2, '\0');
}

/// `storages`: their bytes, by number.
inline std::string new_file(const std::string& value, const std::vector<std::string>& storages) {
  Members members{{"m/data.pkl", pickle(value)}, {"m/byteorder", "little"}};
  for (std::size_t i = 0; i < storages.size(); ++i)
    members.emplace_back(fmt::format("m/data/{}", i), storages[i]);
  return zip(members);
}

/// The format before PyTorch 1.6. `widths`: bytes of a number in each storage.
inline std::string old_file(const std::string& value, const std::vector<std::string>& storages,
                            const std::vector<std::int64_t>& widths) {
  using namespace std::string_literals;
  std::string keys, data;
  for (std::size_t i = 0; i < storages.size(); ++i) {
    keys += text(std::to_string(i));
    data += bytes_of(std::ssize(storages[i]) / widths[i]) + storages[i];
  }
  return pickle("\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19"s) + pickle(number(1001)) +
         pickle(dict({text("little_endian"), "\x88"})) + pickle(value) + pickle("](" + keys + "e") +
         data;
}

}  // namespace lockstep::pickled
