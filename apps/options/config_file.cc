#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "apps/options/command_line.h"
#include "src/base/check.h"
#include "src/base/text.h"

namespace lockstep {
namespace {

std::string trimmed(const std::string& text) {
  constexpr const char* kSpaces = " \t\r";
  const std::size_t begin = text.find_first_not_of(kSpaces);
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
}

/// The values in `text`, which follows the "=" of the option that `where` names: one value, or
/// those of an array. A comment begins with # after a space.
std::vector<std::string> values_in(const std::string& text, const std::string& where) {
  const bool array = text.starts_with('[');
  bool open = array, quoted = false;
  char quote = 0, before = ' ';
  std::string value;
  std::vector<std::string> values;
  const auto finish = [&] {
    if (!quoted) value = trimmed(value);
    if (quoted || !array || !value.empty()) values.push_back(value);
    value.clear();
    quoted = false;
  };
  for (const char c : text.substr(array)) {
    const bool space = std::isspace(static_cast<unsigned char>(before)) != 0;
    before = c;
    if (c == quote) {
      quote = 0;
    } else if (quote != 0) {
      value += c;
    } else if (c == '#' && space) {
      break;
    } else if ((c == '"' || c == '\'') && !quoted && trimmed(value).empty()) {
      quote = c;
      quoted = true;
      value.clear();
    } else if (open && (c == ',' || c == ']')) {
      finish();
      open = c == ',';
    } else if (!quoted && open == array) {
      value += c;
    } else if (!std::isspace(static_cast<unsigned char>(c))) {
      fail_usage("{}: \"{}\" is not understood. Write name = value.", where, printable(text));
    }
  }
  if (quote != 0) fail_usage("{}: a quote is open. Close it.", where);
  if (open) fail_usage("{}: the array has no end. Write it in one line: [\"a\", \"b\"].", where);
  if (!array) finish();
  return values;
}

OptionRow& row_of(const std::string& name, const std::string& place, OptionRows& rows) {
  const std::string shown = printable(name);
  OptionRow* row = rows.find("--" + name);
  if (!row) {
    fail_usage("{}: unknown option \"{}\"{}. Pass --help-all to see all names.", place, shown,
               hint(rows, name, ""));
  }
  if (row->is_of_command_line)
    fail_usage("{}: pass --{} on the command line, not in a config file", place, shown);
  if (!row->place.empty())
    fail_usage("{}: {} is given twice, first in {}. Remove one.", place, row->name, row->place);
  return *row;
}

void read_line(const std::string& line, const std::string& place, OptionRows& rows) {
  const std::string text = trimmed(line);
  if (text.empty() || text.starts_with('#')) return;
  const std::size_t equals = text.find('=');
  if (equals == text.npos || text.starts_with('['))
    fail_usage("{}: \"{}\" is not understood. Write name = value.", place, printable(text));
  OptionRow& row = row_of(trimmed(text.substr(0, equals)), place, rows);
  const std::vector<std::string> values =
      values_in(trimmed(text.substr(equals + 1)), fmt::format("{}: {}", place, row.name));
  if (row.type != OptionRow::Type::list && values.size() != 1)
    fail_usage("{}: {} needs one value, not {}. Write one.", place, row.name, values.size());
  if (row.source == OptionRow::Source::command_line) return;
  try {
    row.set(fmt::format("{}", fmt::join(values, "\n")), OptionRow::Source::file);
  } catch (const Error& error) {
    fail_usage("{}: {}", place, error.what());
  }
  row.place = place;
}

std::string in_quotes(const std::string& text) {
  const char quote = text.find_first_of("\"\\") == text.npos ? '"' : '\'';
  return quote + text + quote;
}

/// `value` of `row` as config.toml has it.
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
  for (std::string line; std::getline(in, line);) {
    if (number == 0 && line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
    read_line(line, fmt::format("{}:{}", file, ++number), rows);
  }
  if (in.bad()) fail_usage("cannot read --config {}: {}", file, std::strerror(errno));
}

std::vector<OptionValue> option_values(OptionRows& rows) {
  std::vector<OptionValue> values;
  for (const OptionRow& row : rows.all()) {
    if (row.is_of_command_line || (row.applies && !row.applies())) continue;
    const auto text = [&](const std::string& value) {
      return value.empty() && row.type != OptionRow::Type::list ? "" : config_value(row, value);
    };
    const std::string value = row.show();
    values.push_back(
        {.name = row.name.substr(2),
         .value = text(value),
         .by_default = text(row.by_default),
         .shapes = row.is_of_weights,
         .changed = row.source != OptionRow::Source::initial && value != row.by_default});
  }
  return values;
}

}  // namespace lockstep
