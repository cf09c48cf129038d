#include "apps/options/config_file.h"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "apps/options/command_line.h"
#include "src/base/check.h"
#include "src/base/text.h"

namespace lockstep {
namespace {

/// `line` without spaces at its ends and without its comment. A comment begins with # outside
/// quotes, at the beginning or after a space. Throws if a quote is open.
std::string without_comment(const std::string& line, const std::string& place) {
  char quote = 0, before = ' ';
  std::size_t end = 0;
  for (; end < line.size(); before = line[end++]) {
    const char c = line[end];
    const bool space = before == ' ' || before == '\t';
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '#' && space) {
      break;
    } else if ((c == '"' || c == '\'') && (space || std::strchr("=[,", before) != nullptr)) {
      quote = c;
    }
  }
  if (quote != 0) {
    const std::string name = CLI::detail::trim_copy(line.substr(0, line.find('=')));
    fail_usage("{}: --{}: a quote is open. Close it.", place, printable(name));
  }
  return CLI::detail::trim_copy(line.substr(0, end));
}

/// The name and the values of a line; no item: the line is empty or a comment. CLI11 sees one line
/// at a time because it keeps no line numbers.
std::vector<CLI::ConfigItem> parse_line(const std::string& line, const std::string& place) {
  const std::string text = without_comment(line, place);
  if (text.empty()) return {};
  const std::size_t equals = text.find('=');
  if (equals == text.npos || text.starts_with('[') || text.starts_with(';') || text.ends_with(','))
    fail_usage("{}: \"{}\" is not understood. Write name = value.", place, printable(text));
  const std::string value = CLI::detail::trim_copy(text.substr(equals + 1));
  if (value.starts_with('[') && !value.ends_with(']'))
    fail_usage("{}: the array has no end. Write it in one line, as in [\"a\", \"b\"].", place);
  std::istringstream input(text);
  CLI::ConfigTOML config;
  config.comment('\n');  // the comment is gone, and a text may contain #
  try {
    return config.from_config(input);
  } catch (const CLI::Error& error) {
    fail_usage("{}: {}", place, printable(error.what()));
  }
}

OptionRow& find_row(const CLI::ConfigItem& item, const std::string& place, OptionRows& rows) {
  const std::string name = item.fullname(), shown = printable(name);
  OptionRow* row = rows.find("--" + name);
  if (!row) {
    fail_usage("{}: unknown option \"{}\"{}. Pass --help-all to see all names.", place, shown,
               hint(rows, name, ""));
  }
  if (row->is_of_command_line)
    fail_usage("{}: pass --{} on the command line, not in a config file", place, shown);
  return *row;
}

/// One value, or lines for a list.
std::string value_of(const CLI::ConfigItem& item, const OptionRow& row, const std::string& place) {
  std::vector<std::string> values = item.inputs;
  if (row.type == OptionRow::Type::list) std::erase(values, "");
  if (row.type != OptionRow::Type::list && values.size() != 1)
    fail_usage("{}: {} needs one value, not {}", place, row.name, values.size());
  return fmt::format("{}", fmt::join(values, "\n"));
}

void read_line(const std::string& line, const std::string& place, OptionRows& rows) {
  for (const CLI::ConfigItem& item : parse_line(line, place)) {
    OptionRow& row = find_row(item, place, rows);
    if (!row.place.empty())
      fail_usage("{}: {} is given twice, first in {}. Remove one.", place, row.name, row.place);
    if (row.source == OptionRow::Source::command_line) continue;
    const std::string value = value_of(item, row, place);
    try {
      row.set(value, OptionRow::Source::file);
    } catch (const Error& error) {
      fail_usage("{}: {}", place, error.what());
    }
    row.place = place;
  }
}

std::string in_quotes(const std::string& text) {
  const char quote = text.find_first_of("\"\\") == text.npos ? '"' : '\'';
  return quote + text + quote;
}

/// `value` of `row` as config_text() writes it.
std::string config_value(const OptionRow& row, const std::string& value) {
  using Type = OptionRow::Type;
  if (row.type == Type::list) {
    std::vector<std::string> texts = lines_of(value);
    for (std::string& text : texts) text = in_quotes(text);
    return fmt::format("[{}]", fmt::join(texts, ", "));
  }
  const bool bare = row.type != Type::text &&
                    (row.type != Type::word || value.find_first_not_of("0123456789") == value.npos);
  return bare ? value : in_quotes(value);
}

}  // namespace

void read_config(const std::string& file, OptionRows& rows) {
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    fail_usage("cannot read --config {}: it is not a file", file);  // opening a pipe would wait
  errno = 0;
  std::ifstream in(file);
  if (!in) fail_usage("cannot read --config {}: {}", file, std::strerror(errno));
  int number = 0;
  for (std::string line; std::getline(in, line);)
    read_line(line, fmt::format("{}:{}", file, ++number), rows);
}

std::string config_text(OptionRows& rows) {
  std::string text;
  for (const OptionRow& row : rows.all()) {
    const bool left_out = row.is_of_command_line || (row.applies && !row.applies());
    const std::string value = left_out ? "" : row.show();
    if (value.empty() && row.type != OptionRow::Type::list) continue;
    text += fmt::format("{}={}\n", row.name.substr(2), config_value(row, value));
  }
  return text;
}

std::map<std::string, std::string> shaping_options(OptionRows& rows) {
  std::map<std::string, std::string> shaping;
  for (const OptionRow& row : rows.all()) {
    if (!row.is_of_weights) continue;
    const bool none = row.by_default.empty() && row.type != OptionRow::Type::list;
    shaping.emplace(row.name.substr(2), none ? "" : config_value(row, row.by_default));
  }
  return shaping;
}

}  // namespace lockstep
