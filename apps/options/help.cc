#include "apps/options/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "src/base/text.h"
#include "src/report/report.h"

namespace lockstep {
namespace {

constexpr std::size_t kColumns = 99, kText = 32;  // of a help; the column at which texts begin

/// Examples of options that need more than a default or a first name.
constexpr std::pair<std::string_view, std::string_view> kExamples[] = {
    {"--batch", "--batch 64"},
    {"--find-lr", "--find-lr 100"},
    {"--group", "--group 'conv*/biases:lr=0.1,weight-decay=0'"},
    {"--help", "--help momentum"},
    {"--hue", "--hue 0.1"},
    {"--lr", "--lr 0.03 --lr-schedule cosine"},
    {"--lr-scale-batch", "--global-batch 512 --lr 0.1 --lr-scale-batch 128"},
    {"--momentum", "--momentum 0.9"},
    {"--nesterov", "--momentum 0.9 --nesterov"},
    {"CHECKPOINT", "checkpoints/first"},
    {"RUNS", "first second"},
};

void print_answer(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  Console().line(std::string(text));
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

/// The options that this text names, or whose names begin with the same word.
std::string related(OptionRows& rows, const OptionRow& row) {
  const auto first_word = [](const std::string& name) { return name.substr(0, name.find('-', 2)); };
  std::vector<std::string> names;
  for (const OptionRow& other : rows.all()) {
    const bool named = (row.about + " ").find(other.name + " ") != std::string::npos ||
                       first_word(row.name) == first_word(other.name);
    if (named && other.name != row.name) names.push_back(other.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string example(const OptionRow& row, const ProgramText& program) {
  const auto known = std::find_if(std::begin(kExamples), std::end(kExamples),
                                  [&](const auto& pair) { return pair.first == row.name; });
  std::string words = row.name;
  if (known != std::end(kExamples)) {
    words = known->second;
  } else if (row.values.size() > 1) {
    words += " " + row.values[1];
  } else if (row.type != OptionRow::Type::flag) {
    const bool shows = !row.by_default.empty() && row.by_default != "0";
    const char* other = row.value == "DIR" ? "folder" : row.value == "FILE" ? "file" : "1";
    words += " " + (shows ? row.by_default : other);
  }
  if (row.group.starts_with("With "))  // "With --optimizer sgd, lars"
    words = row.group.substr(5, row.group.find(',') - 5) + " " + words;
  std::string command = program.usage;
  const std::string place = row.name.starts_with('-') ? "[OPTIONS]" : "[OPTIONS] " + row.name;
  return command.replace(command.find(place), place.size(), words);
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

OptionText text_of(const OptionRow& row) {
  using Type = OptionRow::Type;
  OptionText text{.name = row.value.empty() ? row.name : row.name + " " + row.value,
                  .headline = row.about.substr(0, row.about.find('\n')),
                  .by_default = row.type == Type::flag ? "" : row.by_default,
                  .details = row.about,
                  .type = row.value == "DIR"    ? "folder"
                          : row.value == "FILE" ? "file"
                                                : "text",
                  .values = fmt::format("{}", fmt::join(row.values, ", "))};
  text.details.erase(0, text.headline.size() + 1);
  if (const std::size_t bracket = text.headline.rfind(" ["); text.headline.ends_with(']')) {
    const std::string named = text.headline.substr(bracket + 2);
    text.by_default += (text.by_default.empty() ? "" : "; ") + named.substr(0, named.size() - 1);
    text.headline.resize(bracket);
  }
  if (row.type == Type::flag) text.type = "flag";
  if (row.type == Type::list) text.type = "text, may be passed again";
  if (row.type == Type::whole) text.type = "whole number " + row.range;
  if (row.type == Type::number) text.type = "number " + row.range;
  return text;
}

std::string help_text(OptionRows& rows, const ProgramText& program, bool all) {
  all = all || std::none_of(rows.all().begin(), rows.all().end(),
                            [](const OptionRow& row) { return row.is_common; });
  std::string group, lines = fmt::format("Usage: {}\n{}.\nDefaults are in brackets.\n",
                                         program.usage, program.about);
  for (const OptionRow& row : rows.all()) {
    if (!all && !row.is_common) continue;
    if (row.group != group) lines += fmt::format("\n{}:\n", row.group);
    group = row.group;
    const OptionText text = text_of(row);
    lines += fmt::format("  {:<{}}{}", text.name, kText - 2, text.headline);
    lines += text.by_default.empty() ? "\n" : fmt::format(" [{}]\n", text.by_default);
  }
  if (!all) {
    lines += fmt::format("\n--help-all shows all {} options, and --help OPTION explains one.\n",
                         rows.all().size());
  }
  return wrapped(lines, kText, kColumns);
}

std::string option_help(OptionRows& rows, const OptionRow& row, const ProgramText& program) {
  const OptionText text = text_of(row);
  const std::string off = row.type == OptionRow::Type::flag ? "off" : "none";
  const std::pair<const char*, std::string> facts[] = {
      {"Type", text.type},
      {"Values", text.values},
      {"Default", text.by_default.empty() ? off : text.by_default},
      {"Group", fmt::format("{} ({})", row.group, row.is_common ? "common" : "advanced")},
      {"Example", example(row, program)},
      {"Related", related(rows, row)}};
  std::string lines = fmt::format("{}\n    {}.\n", text.name, text.headline);
  for (const std::string& line : lines_of(text.details)) lines += fmt::format("    {}\n", line);
  for (const auto& [name, value] : facts) {
    if (!value.empty()) lines += fmt::format("    {:<10}{}\n", name, value);
  }
  return wrapped(lines, 4, kColumns);
}

int run_or_print_help(int argc, char** argv, const char* program,
                      const std::function<bool(std::string& answer)>& parse,
                      const std::function<int(World&)>& run, Start start) {
  if (answered_without_ranks(parse)) return kExitSuccess;
  const auto body = [&](World& world) {
    std::string answer;
    bool runs = false;
    agree(world.comm(), [&] { runs = parse(answer); });
    expect_same(world.comm(), "options",
                fmt::format("asked for = {}", runs ? "a run" : "--help or the like"));
    if (runs && start == Start::single && world.comm().size() > 1)
      throw AgreedError(kOneProcess, kExitUsage);
    if (runs) return run(world);
    if (world.comm().rank() == 0) print_answer(answer);
    return static_cast<int>(kExitSuccess);
  };
  return run_main(argc, argv, program, body, start);
}

int run_without_ranks(const char* program, const std::function<bool(std::string& answer)>& parse,
                      const std::function<int()>& run) {
  try {
    std::string answer;
    if (parse(answer)) return run();
    print_answer(answer);
    return kExitSuccess;
  } catch (...) {
    const Error error = current_error();
    print_error(fmt::format("{}: {}\n", program, error.what()));
    return error.exit_code();
  }
}

}  // namespace lockstep
