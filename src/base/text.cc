#include "src/base/text.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <set>
#include <span>

#include "src/base/check.h"

namespace lockstep {

std::string printable(const std::string& text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    const bool two = byte == 0xc2 && next >= 0x80 && next <= 0x9f;
    const bool control = two || byte == 127 || (byte < ' ' && byte != '\n');
    result += control ? '?' : text[i];
    i += two;
  }
  return result;
}

void print_error(const std::string& text) { std::fputs(printable(text).c_str(), stderr); }

std::string one_line(const std::string& text) {
  std::string line = printable(text);
  std::ranges::replace(line, '\n', '?');
  return line;
}

std::string shell_word(const std::string& text) {
  std::string word = one_line(text);
  const bool plain = !word.empty() && std::ranges::all_of(word, [](unsigned char c) {
    return std::isalnum(c) || std::strchr("_-+./,:=@%", c);
  });
  // Nothing is special to a shell within single quotes except their end. So the text ends, a quote
  // follows with a backslash, and the text begins again.
  for (std::size_t at = 0; !plain && (at = word.find('\'', at)) != word.npos; at += 4)
    word.replace(at, 1, "'\\''");
  return plain ? word : "'" + word + "'";
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::vector<std::string> split(std::string_view text, char sign) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(sign, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::vector<std::pair<std::string, std::string>> named_values(std::string_view text,
                                                              std::string_view sign) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const std::string& line : lines_of(text)) {
    const std::size_t end = line.find(sign);
    if (end != line.npos) values.emplace_back(line.substr(0, end), line.substr(end + sign.size()));
  }
  return values;
}

std::string listed(const std::vector<std::string>& names) {
  constexpr std::ptrdiff_t kMost = 10;
  const std::ptrdiff_t count = std::min(kMost, std::ssize(names));
  std::string text = joined(std::span(names).first(count), ", ");
  if (count < std::ssize(names)) text += fmt::format(" and {} more", std::ssize(names) - count);
  return text;
}

std::vector<std::string> missing_from(const std::vector<std::string>& known,
                                      const std::vector<std::string>& all) {
  const std::set<std::string> there(known.begin(), known.end());
  std::vector<std::string> missing;
  std::ranges::copy_if(all, std::back_inserter(missing),
                       [&](const std::string& name) { return !there.contains(name); });
  return missing;
}

std::string unique_hex(std::size_t bytes) {
  std::string random(bytes, '\0'), text;
  require(::getentropy(random.data(), bytes) == 0, "the kernel returned no random numbers: {}",
          std::strerror(errno));
  for (const char byte : random) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::string with_unix_ends(std::string text) {
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  const std::size_t end = text.find_first_of("\r\n");
  if (end != text.npos && text[end] == '\r' && !text.substr(end, 2).ends_with('\n'))
    std::ranges::replace(text, '\r', '\n');
  return text;
}

}  // namespace lockstep
