#include "apps/options/command_line.h"
#include "src/base/check.h"
#include "src/base/text.h"
#include "src/files/toml.h"

namespace lockstep {
namespace {

constexpr const char* kAdvice = "Write name = value, with texts in quotes.";

OptionRow& row_of(const std::string& name, const std::string& place, OptionRows& rows) {
  const std::string shown = one_line(name);
  OptionRow* row = rows.find("--" + name);
  if (!row) {
    refuse_removed("--" + name, "", place + ": ");
    fail_usage("{}: unknown option \"{}\"{}. Pass --help-all to see all names.", place, shown,
               hint(rows, name, ""));
  }
  if (row->is_of_command_line)
    fail_usage("{}: pass --{} on the command line, not in a config file", place, shown);
  return *row;
}

/// The value of `node`, which is no array: a text, or a number as the file writes it.
/// So one parser reads the numbers of files and of command lines, and no digit is lost.
std::string value_of(const toml::node& node, const std::vector<std::string>& lines) {
  if (const auto* text = node.as_string()) return text->get();
  const toml::source_region& at = node.source();
  return lines[at.begin.line - 1].substr(at.begin.column - 1, at.end.column - at.begin.column);
}

/// The texts of the array `node`, one a line, or its only value.
std::string values_of(const OptionRow& row, const toml::node& node,
                      const std::vector<std::string>& lines) {
  const toml::array* array = node.as_array();
  if (!array) return value_of(node, lines);
  if (!row.has_lines()) fail_usage("{} needs one value. {}", row.name, kAdvice);
  std::vector<std::string> texts;
  for (const toml::node& element : *array) {
    if (!element.is_string()) fail_usage("{} has a value that is no text. {}", row.name, kAdvice);
    texts.push_back(value_of(element, lines));
  }
  return joined(texts, "\n");
}

/// TOML and JSON read it.
std::string in_quotes(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return fmt::format("\"{}\"", escaped);
}

/// `value` of `row` as config.toml has it. TOML's whole numbers are below 2^63.
std::string config_value(const OptionRow& row, const std::string& value) {
  using Type = OptionRow::Type;
  if (row.type == Type::list || value.find('\n') != value.npos) {
    std::vector<std::string> texts = lines_of(value);
    for (std::string& text : texts) text = in_quotes(text);
    return fmt::format("[{}]", fmt::join(texts, ", "));
  }
  const bool whole = value.find_first_not_of("0123456789") == value.npos && value.size() < 19;
  const bool bare =
      row.type == Type::flag || row.type == Type::number || (row.type != Type::text && whole);
  return bare ? value : in_quotes(value);
}

}  // namespace

void read_config(const std::string& file, OptionRows& rows) {
  const std::string text = with_unix_ends(read_toml("--config", file, 1 << 20));
  const toml::table tables = parse_toml(text, file, kAdvice);
  const std::vector<std::string> lines = lines_of(text);
  for (const auto& [key, node] : tables) {
    const std::string name(key.str()), place = fmt::format("{}:{}", file, key.source().begin.line);
    if (node.is_table()) fail_usage("{}: \"{}\" is a table. {}", place, one_line(name), kAdvice);
    OptionRow& row = row_of(name, place, rows);
    if (row.source == OptionRow::Source::command_line) continue;
    try {
      const std::string value = values_of(row, node, lines);
      refuse_removed(row.name, value);
      row.set(value, OptionRow::Source::file);
    } catch (const Error& error) {
      fail_usage("{}: {}", place, error.what());
    }
    row.place = place;
  }
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
         .changed = row.source != OptionRow::Source::initial && value != row.by_default,
         .of_recipe = row.source == OptionRow::Source::recipe});
  }
  return values;
}

}  // namespace lockstep
