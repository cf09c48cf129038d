#include "apps/options/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <exception>

#include "collectives/watch/launch.h"
#include "src/base/text.h"
#include "src/report/report.h"

namespace lockstep {
namespace {

constexpr std::size_t kColumns = 99, kText = 32;  // of a help; the column at which texts begin

/// Examples that say more than a default or a first name.
constexpr std::pair<std::string_view, std::string_view> kExamples[] = {
    {"--data", "--data data/cifar10"},
    {"--config", "--config run.toml"},
    {"--crop-padding", "--crop-padding 2"},
    {"--init", "--init first.h5"},
    {"--steps", "--steps 10000"},
    {"--epochs", "--epochs 10"},
    {"--batch", "--batch 128"},
    {"--global-batch", "--global-batch 1024"},
    {"--lr-scale-batch", "--lr-scale-batch 128"},
    {"--weight-decay", "--weight-decay 5e-4"},
    {"--group", "--group 'conv*/biases:lr=0.1,weight-decay=0'"},
    {"--momentum", "--momentum 0.9"},
    {"--nesterov", "--momentum 0.9 --nesterov"},
    {"--trace", "--trace trace.json"},
    {"--target", "--target 94"},
    {"--log-dir", "--log-dir logs/first"},
    {"--checkpoint-dir", "--checkpoint-dir checkpoints/first"},
    {"--help", "--help momentum"},
    {"--logits", "--logits logits.h5"},
    {"CHECKPOINT", "checkpoints/first"},
};

void print_answer(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  Console().line(text);
}

/// True if this process has no launcher and the answer is printed. Errors are left to the second
/// reading.
bool answered_without_ranks(const std::function<bool(std::string& answer)>& parse) {
  const Environment environment = [](const char* name) { return std::getenv(name); };
  if (has_launcher(environment)) return false;
  try {
    std::string answer;
    if (parse(answer)) return false;
    if (is_first_task(environment)) print_answer(answer);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

/// The noun phrase of the help, and the default in brackets that may follow it.
std::pair<std::string, std::string> split(const OptionRow& row) {
  const std::string line = row.about.substr(0, row.about.find('\n'));
  const std::size_t bracket = line.ends_with(']') ? line.rfind(" [") : line.npos;
  if (bracket == line.npos) return {line, ""};
  return {line.substr(0, bracket), line.substr(bracket + 2, line.size() - bracket - 3)};
}

/// Whether `text` contains `name` and not only a longer name.
bool mentions(const std::string& text, const std::string& name) {
  for (std::size_t at = text.find(name); at != text.npos; at = text.find(name, at + 1)) {
    const char next = at + name.size() < text.size() ? text[at + name.size()] : ' ';
    if (next != '-' && !std::isalnum(static_cast<unsigned char>(next))) return true;
  }
  return false;
}

/// The options that one text names beside the other, or whose names begin with the same word.
std::string related(OptionRows& rows, const OptionRow& row) {
  const auto first_word = [](const std::string& name) { return name.substr(0, name.find('-', 2)); };
  std::vector<std::string> names;
  for (const OptionRow& other : rows.all()) {
    const bool near = mentions(row.about, other.name) || mentions(other.about, row.name) ||
                      first_word(row.name) == first_word(other.name);
    if (near && other.name != row.name) names.push_back(other.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string example(const OptionRow& row, const ProgramText& program) {
  const auto known = std::find_if(std::begin(kExamples), std::end(kExamples),
                                  [&](const auto& pair) { return pair.first == row.name; });
  const bool whole = row.type == OptionRow::Type::whole;
  std::string words = row.name;
  if (known != std::end(kExamples)) {
    words = known->second;
  } else if (row.values.size() > 1) {
    words += " " + row.values[1];
  } else if (row.type != OptionRow::Type::flag) {
    const bool shows = !row.by_default.empty() && row.by_default != "0";
    words += " " + (shows ? row.by_default : whole ? "4" : "0.1");
  }
  if (row.group.starts_with("With "))  // "With --optimizer sgd, lars"
    words = row.group.substr(5, row.group.find(',') - 5) + " " + words;
  const std::string place = row.name.starts_with('-') ? "[OPTIONS]" : row.name;
  std::string command = program.usage;
  command.replace(command.find(place), place.size(), words);
  const std::size_t options = command.find("[OPTIONS] ");
  return options == command.npos ? command : command.erase(options, 10);
}

std::string type_text(const OptionRow& row) {
  using Type = OptionRow::Type;
  if (row.type == Type::flag) return "flag";
  if (row.type == Type::list) return "text, may be passed again";
  if (row.type == Type::text || row.type == Type::word) {
    return row.value == "DIR" ? "folder" : row.value == "FILE" ? "file" : "text";
  }
  const char* kind = row.type == Type::whole ? "whole number" : "number";
  return row.range.empty() ? kind : fmt::format("{} {}", kind, row.range);
}

}  // namespace

std::string wrapped(const std::string& text, std::size_t indent, std::size_t columns) {
  std::string result;
  for (std::string line : lines_of(text)) {
    while (line.size() > columns) {
      const std::size_t space = line.rfind(' ', columns);
      if (space == std::string::npos || space <= indent) break;
      result += line.substr(0, space) + "\n";
      line = std::string(indent, ' ') + line.substr(space + 1);
    }
    result += line + "\n";
  }
  return result;
}

std::vector<std::string> groups_of(OptionRows& rows) {
  std::vector<std::string> groups;
  for (const OptionRow& row : rows.all()) {
    if (std::find(groups.begin(), groups.end(), row.group) == groups.end())
      groups.push_back(row.group);
  }
  return groups;
}

std::string signature(const OptionRow& row) {
  return row.value.empty() ? row.name : row.name + " " + row.value;
}

std::string headline(const OptionRow& row) { return split(row).first; }

std::string default_text(const OptionRow& row) {
  const std::string own = row.type == OptionRow::Type::flag ? "" : row.by_default,
                    named = split(row).second;
  return own.empty() || named.empty() ? own + named : own + "; " + named;
}

std::string details(const OptionRow& row) {
  const std::size_t end = row.about.find('\n');
  return end == row.about.npos ? "" : row.about.substr(end + 1);
}

std::string help_text(OptionRows& rows, const ProgramText& program, bool all) {
  all = all || std::none_of(rows.all().begin(), rows.all().end(),
                            [](const OptionRow& row) { return row.is_common; });
  std::string text =
      fmt::format("Usage: {}\n{}.\nDefaults are in brackets.\n", program.usage, program.about);
  for (const std::string& group : groups_of(rows)) {
    std::string lines;
    for (const OptionRow& row : rows.all()) {
      if (row.group != group || !(all || row.is_common)) continue;
      const std::string by_default = default_text(row), name = signature(row);
      lines += fmt::format("  {:<{}}{}", name, kText - 2, name.size() < kText - 2 ? "" : "\n");
      if (lines.ends_with('\n')) lines += std::string(kText, ' ');
      lines += headline(row) + (by_default.empty() ? "\n" : fmt::format(" [{}]\n", by_default));
    }
    if (!lines.empty()) text += fmt::format("\n{}:\n{}", group, lines);
  }
  if (!all) {
    text += fmt::format("\n--help-all shows all {} options, and --help OPTION explains one.\n",
                        rows.all().size());
  }
  return wrapped(text, kText, kColumns);
}

std::string option_help(OptionRows& rows, const OptionRow& row, const ProgramText& program) {
  std::string text = fmt::format("{}\n    {}.\n", signature(row), headline(row));
  if (const std::string more = details(row); !more.empty()) text += fmt::format("    {}\n", more);
  text = wrapped(text, 4, kColumns) + "\n";
  const std::string by_default = default_text(row), shown = row.is_common ? "common" : "advanced";
  const std::pair<const char*, std::string> facts[] = {
      {"Type", type_text(row)},
      {"Values", fmt::format("{}", fmt::join(row.values, ", "))},
      {"Default", !by_default.empty()                 ? by_default
                  : row.type == OptionRow::Type::flag ? "off"
                                                      : "none"},
      {"Group", fmt::format("{} ({})", row.group, shown)},
      {"Example", example(row, program)},
      {"Related", related(rows, row)}};
  for (const auto& [name, value] : facts) {
    if (!value.empty()) text += wrapped(fmt::format("    {:<10}{}", name, value), 14, kColumns);
  }
  return text;
}

int run_or_print_help(int argc, char** argv, const char* program,
                      const std::function<bool(std::string& answer)>& parse,
                      const std::function<int(World&)>& run) {
  if (answered_without_ranks(parse)) return kExitSuccess;
  return run_main(argc, argv, program, [&](World& world) {
    std::string answer;
    bool runs = false;
    agree(world.comm(), [&] { runs = parse(answer); });
    expect_same(world.comm(), "options",
                fmt::format("asked for = {}", runs ? "a run" : "--help or the like"));
    if (runs) return run(world);
    if (world.comm().rank() == 0) print_answer(answer);
    return static_cast<int>(kExitSuccess);
  });
}

}  // namespace lockstep
