#include "apps/options/config_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include "src/base/check.h"

namespace lockstep {
namespace {

std::string contents_of(const std::string& file) {
  constexpr std::size_t kLongest = 1 << 16;  // some hundred times all options
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    fail_usage("cannot read --config {}: it is not a file", file);
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  std::string text;
  if (in) {
    text.resize(kLongest + 1);
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(in.gcount());
  }
  if (in.bad() || !in.eof()) {
    if (text.size() > kLongest)
      fail_usage("{} is longer than {} KiB: it is not a file of options", file, kLongest >> 10);
    fail_usage("cannot read --config {}: {}", file, std::strerror(errno));
  }
  return text;
}

/// A key of many dots is as many tables, one in another, which no stack holds.
void require_short_lines(const std::string& file, const std::string& text) {
  constexpr std::size_t kLongest = 1 << 12;  // the longest path, too
  std::size_t number = 1, begin = 0;
  for (std::size_t end; begin < text.size(); begin = end + 1, ++number) {
    end = std::min(text.find('\n', begin), text.size());
    if (end - begin > kLongest) {
      fail_usage("{}:{}: the line is longer than {} KiB: it is not a file of options", file, number,
                 kLongest >> 10);
    }
  }
}

std::string place_of(const std::string& file, const toml::source_region& source) {
  return fmt::format("{}:{}:{}", file, source.begin.line, source.begin.column);
}

/// `text` without what a line of a terminal cannot show.
std::string printable(std::string_view text) {
  std::string result(text);
  std::erase_if(result, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; });
  return result;
}

ConfigValue array_of(const std::string& place, const std::string& name, const toml::array& array) {
  std::vector<std::string> texts;
  for (const toml::node& node : array) {
    const auto* text = node.as_string();
    if (!text || (*text)->empty() || printable(**text) != **text)
      return {name, ConfigValue::Kind::array, "", place};
    texts.push_back(**text);
  }
  return {name, ConfigValue::Kind::list, fmt::format("{}", fmt::join(texts, "\n")), place};
}

ConfigValue value_of(const std::string& file, const std::string& name, const toml::node& node) {
  using Kind = ConfigValue::Kind;
  // The value's column, for toml++ 3.0 keeps none of names.
  const std::string place = place_of(file, node.source());
  switch (node.type()) {
    case toml::node_type::boolean:
      return {name, Kind::boolean, **node.as_boolean() ? "true" : "false", place};
    case toml::node_type::integer:
      return {name, Kind::integer, fmt::format("{}", **node.as_integer()), place};
    case toml::node_type::floating_point:
      return {name, Kind::number, fmt::format("{}", **node.as_floating_point()), place};
    case toml::node_type::string:
      return {name, Kind::text, **node.as_string(), place};
    case toml::node_type::table:
      fail_usage("{}: {} begins a table: write name = value lines without sections and dots", place,
                 printable(name));
    case toml::node_type::array:
      return array_of(place, name, *node.as_array());
    default:
      fail_usage("{}: {} is a date or a time: no option is one", place, printable(name));
  }
}

}  // namespace

std::vector<ConfigValue> read_config(const std::string& file) {
  const std::string text = contents_of(file);
  require_short_lines(file, text);
  const auto lines = std::count(text.begin(), text.end(), '\n');
  toml::table table;
  try {
    table = toml::parse(std::string_view(text), std::string_view(file));
  } catch (const toml::parse_error& error) {
    // toml++ finds an end of file one line late where the last line has its newline.
    auto source = error.source();
    source.begin.line =
        std::min<toml::source_index>(source.begin.line, static_cast<toml::source_index>(lines) + 1);
    fail_usage("{}: {}", place_of(file, source), printable(error.description()));
  }
  std::vector<std::pair<toml::source_position, ConfigValue>> found;
  for (const auto& [key, node] : table) {
    found.emplace_back(node.source().begin,
                       value_of(file, std::string(std::string_view(key)), node));
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first.line, a.first.column) < std::pair(b.first.line, b.first.column);
  });
  std::vector<ConfigValue> values;
  for (auto& [position, value] : found) values.push_back(std::move(value));
  return values;
}

std::string toml_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = [&](std::size_t at) {
      return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u;
    };
    const unsigned first = byte(i);
    const std::size_t length = first < 0x80   ? 1
                               : first < 0xC2 ? 0
                               : first < 0xE0 ? 2
                               : first < 0xF0 ? 3
                               : first < 0xF5 ? 4
                                              : 0;
    if (length == 0) return false;
    unsigned code = length == 1 ? first : first & (0x7Fu >> length);
    for (std::size_t k = 1; k < length; ++k) {
      if ((byte(i + k) & 0xC0) != 0x80) return false;
      code = code << 6 | (byte(i + k) & 0x3F);
    }
    constexpr unsigned kShortest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (code < kShortest[length] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
      return false;
    i += length;
  }
  return true;
}

}  // namespace lockstep
