#include "apps/options/help.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/text.h"

namespace lockstep {
namespace {

constexpr std::size_t kColumns = 99, kText = 32;  // of a help; the column at which texts begin

/// The value of an example: that of the row, a name that is not the default, or the default.
std::string example_value(const OptionRow& row) {
  if (!row.example_text.empty()) return row.example_text;
  if (row.values.size() > 1) return row.values[1];
  return row.type == OptionRow::Type::flag ? "" : row.by_default;
}

/// "--lr-end 0.001 --lr-schedule cosine": an example of `row` with the options that it needs.
std::string example_words(OptionRows& rows, const OptionRow& row) {
  const std::string value = example_value(row);
  std::string words = value.empty() ? row.name : row.name + " " + value;
  if (value.find("--") != value.npos) return words;
  for (const auto& [option, holds, against] : row.conditions) {
    if (against) continue;
    const bool has_value = option.find(' ') != option.npos;
    words += " " + (has_value ? option.substr(0, option.find(" or "))
                              : example_words(rows, rows.at(option)));
  }
  return words;
}

}  // namespace

std::string wrapped(const std::string& text, std::size_t indent, std::size_t columns) {
  std::string result;
  for (std::string line : lines_of(text)) {
    while (line.size() > columns) {
      const std::size_t space = line.rfind(' ', columns);
      // A word that is longer than a line stays whole.
      if (space == std::string::npos || space <= indent) break;
      result += line.substr(0, space) + "\n";
      line = std::string(indent, ' ') + line.substr(space + 1);
    }
    result += line + "\n";
  }
  return result;
}

OptionText::OptionText(const OptionRow& row)
    : name(row.value.empty() ? row.name : row.name + " " + row.value),
      headline(row.about.substr(0, row.about.find('\n'))),
      by_default(row.type == OptionRow::Type::flag ? "" : row.by_default),
      details(row.about.substr(std::min(headline.size() + 1, row.about.size()))),
      values(joined(row.values, ", ")) {
  // A default that is not a plain value stands in brackets at the end of the headline.
  if (const std::size_t bracket = headline.rfind(" ["); headline.ends_with(']')) {
    const std::string named = headline.substr(bracket + 2);
    by_default += (by_default.empty() ? "" : "; ") + named.substr(0, named.size() - 1);
    headline.resize(bracket);
  }
  if (!row.of_recipe.empty()) by_default = row.of_recipe;
  using enum OptionRow::Type;
  type = row.value == "DIR" ? "folder" : "text";
  if (row.value == "FILE") type = "file";
  if (row.type == flag) type = "flag";
  if (row.type == list) type = "text, may be passed again";
  if (row.type == whole) type = "whole number " + row.range;
  if (row.type == number) type = "number " + row.range;
}

std::string help_text(OptionRows& rows, const ProgramText& program, bool all) {
  all = all || std::ranges::none_of(rows.all(), &OptionRow::is_common);
  std::string group, lines = fmt::format("Usage: {}\n{}.\nDefaults are in brackets.", program.usage,
                                         program.about);
  if (rows.find("--model") && rows.find("--check"))
    lines += " Another --model may have others; --check prints them.";
  lines += "\n";
  for (const OptionRow& row : rows.all()) {
    if (!all && !row.is_common) continue;
    if (row.group != group) lines += fmt::format("\n{}:\n", row.group);
    group = row.group;
    const OptionText text(row);
    lines += fmt::format("  {:<{}}{}", text.name, kText - 2, text.headline);
    lines += text.by_default.empty() ? "\n" : fmt::format(" [{}]\n", text.by_default);
  }
  if (!all) {
    lines += fmt::format("\n--help-all shows all {} options, and --help OPTION explains one.\n",
                         rows.all().size());
  }
  return wrapped(lines, kText, kColumns);
}

std::string example(OptionRows& rows, const OptionRow& row, const ProgramText& program) {
  if (row.name == "--help") return fmt::format("{} --help {}", program.name, rows.all()[1].name);
  if (row.group == "Help") return program.name + " " + row.name;
  std::string words = row.name.starts_with("--") ? example_words(rows, row) : "";
  // Programs without --model have their data already.
  if (!rows.find("--model")) words = words.substr(0, words.find(" --dataset"));
  std::string command = program.usage;
  const auto replace = [&](const std::string& from, const std::string& to) {
    if (const std::size_t at = command.find(from); at != command.npos)
      command.replace(at, from.size(), to);
  };
  for (const OptionRow& other : rows.all()) {  // words that the usage shows
    const std::string value = example_value(other), option = other.name + " " + other.value;
    if (!other.name.starts_with("--")) {
      replace(other.name + (other.type == OptionRow::Type::list ? "..." : ""), value);
    } else if (words.find(other.name + " ") == words.npos) {
      replace(option, other.name + " " + value);
    } else {
      replace(option + " ", "");
    }
  }
  replace(words.empty() ? "[OPTIONS] " : "[OPTIONS]", words);
  return command;
}

std::string option_help(OptionRows& rows, const OptionRow& row, const ProgramText& program) {
  const OptionText text(row);
  std::vector<std::string> needed, excluded;
  for (const auto& [option, holds, against] : row.conditions)
    (against ? excluded : needed).push_back(option);
  for (const auto& [option, what] : row.exclusions) excluded.push_back(option);
  const std::string off = row.type == OptionRow::Type::flag ? "off" : "none";
  const std::pair<const char*, std::string> facts[] = {
      {"Type", text.type},
      {"Values", text.values},
      {"Default", text.by_default.empty() ? off : text.by_default},
      {"Group", fmt::format("{} ({})", row.group, row.is_common ? "common" : "advanced")},
      {"Only with", joined(needed, ", ")},
      {"Not with", joined(excluded, ", ")},
      {"Example", example(rows, row, program)}};
  std::string lines = fmt::format("{}\n    {}.\n", text.name, text.headline);
  for (const std::string& line : lines_of(text.details)) lines += fmt::format("    {}\n", line);
  for (const auto& [name, value] : facts) {
    if (!value.empty()) lines += fmt::format("    {:<10}{}\n", name, value);
  }
  return wrapped(lines, 4, kColumns);
}

}  // namespace lockstep
