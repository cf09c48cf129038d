#include "apps/options/command_line.h"

#include <algorithm>
#include <vector>

#include "src/base/check.h"
#include "src/base/machine.h"
#include "src/base/table.h"
#include "src/base/text.h"
#include "src/data/names.h"
#include "src/device/cpu/arithmetic.h"

namespace lockstep {
namespace {

/// Options of other launchers and trainers that set the number of ranks, which mpirun sets here.
constexpr std::string_view kRanksElsewhere =
    ", devices, gpus, ngpus, nproc, nproc-per-node, num-gpus, ranks, world-size, ";

/// Options and values of former versions.
struct Removed {
  std::string_view name, value;  ///< an empty value: the option itself
  std::string_view instead;
};
constexpr Removed kRemoved[] = {
    {"--focal-gamma", "", "Omit it. --class-weights gives rare classes more weight."},
    {"--loss", "", "Omit it. --class-weights gives rare classes more weight."},
    {"--loss-scale", "", "Omit it. bf16 has the range of fp32 and needs no loss scale."},
    {"--precision", "fp16", "Pass --precision bf16."},
    {"--reducer", "factors", "Pass --wire bf16."},
    {"--reducer", "owners", "Pass --reducer direct."},
    {"--sampling", "weighted", "Pass --sampling balanced, or --class-weights with a file."},
};

/// `name` in small letters, with - for _.
std::string plain(std::string_view name) {
  std::string result = lower_case(std::string(name));
  std::ranges::replace(result, '_', '-');
  return result;
}

/// The name of an option, with or without leading dashes, without them.
std::string bare(const std::string& name) {
  return name.substr(std::min(name.find_first_not_of('-'), name.size()));
}

[[noreturn]] void fail_unknown_option(OptionRows& rows, const std::string& word) {
  const std::string shown = printable(word);
  fail_usage("unknown option {}{}. Pass --help-all to see all options.", shown,
             hint(rows, bare(shown.substr(0, shown.find('='))), "--"));
}

/// The next row that is no option; null: all have their values.
OptionRow* row_without_name(OptionRows& rows) {
  for (OptionRow& row : rows.all()) {
    if (!row.name.starts_with('-') && (!row.given() || row.type == OptionRow::Type::list))
      return &row;
  }
  return nullptr;
}

/// The row that `name` is an option of, or the next one that is no option.
OptionRow& row_of(OptionRows& rows, const std::string& name, const std::string& word) {
  const std::string known = name == "-np" ? "--np" : name;  // as mpirun has it
  if (OptionRow* row = rows.find(known); row && known.starts_with("--")) return *row;
  refuse_removed(name, "");
  if (name.size() > 1 && name.starts_with('-')) fail_unknown_option(rows, word);
  if (OptionRow* row = row_without_name(rows)) return *row;
  fail_usage("\"{}\" is not understood. Options begin with --; pass --help to see them.",
             printable(word));
}

/// No option follows it, so that names of files may begin with a dash.
constexpr std::string_view kEndOfOptions = "--";

void read_words(OptionRows& rows, const std::vector<std::string>& words) {
  bool options = true;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (options && words[i] == kEndOfOptions && row_without_name(rows) != nullptr) {
      options = false;
      continue;
    }
    const bool dash = options && words[i].starts_with('-');
    const std::size_t equals = dash ? words[i].find('=') : std::string::npos;
    OptionRow& row = row_of(rows, options ? words[i].substr(0, equals) : "", words[i]);
    const bool list = row.has_lines(), flag = row.type == OptionRow::Type::flag;
    std::string value = flag ? "true" : words[i];
    if (equals != std::string::npos) {
      value = words[i].substr(equals + 1);
    } else if (!flag && row.name.starts_with('-')) {
      if (++i == words.size()) fail_usage("{}: its value is missing", row.name);
      value = words[i];
    }
    if (value.empty()) fail_usage("{}: its value is empty (a variable that is not set?)", row.name);
    // Line ends separate the values of a list, so none may contain one.
    if (list && one_line(value) != value) {
      fail_usage("{}: \"{}\" has control characters. Pass its folder, or rename it.", row.name,
                 one_line(value));
    }
    refuse_removed(row.name, value);
    // The last value counts, so that a script can add options to those of its user.
    row.set(row.given() && list ? row.show() + "\n" + value : value,
            OptionRow::Source::command_line);
  }
}

/// The help on option `topic`, with or without its dashes.
std::string help_on(OptionRows& rows, const ProgramText& program, const std::string& topic) {
  if (bare(topic).empty()) fail_usage("--help: its value is empty. Pass the name of an option.");
  const OptionRow* row = rows.find("--" + bare(topic));
  if (!row) row = rows.find(topic);
  if (!row) fail_unknown_option(rows, topic);
  return option_help(rows, *row, program);
}

/// The answer to a word that asks for text instead of a run; empty if there is none.
std::string answer_to(OptionRows& rows, const ProgramText& program,
                      const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size() && words[i] != kEndOfOptions; ++i) {
    const std::string& word = words[i];
    if (word.starts_with("--help=")) return help_on(rows, program, word.substr(7));
    if (word == "--help" || word == "-h") {
      return i + 1 < words.size() ? help_on(rows, program, words[i + 1])
                                  : help_text(rows, program, /*all=*/false);
    }
    if (word == "--help-all") return help_text(rows, program, /*all=*/true);
    if (word == "--version")
      return fmt::format("{} {}, {} arithmetic {}\n", program.name, build_name(),
                         kPortableArithmetic, kPortableVersion);
    if (word == "--print-man") return man_page(rows, program);
    if (word == "--print-completion") return completion(rows, program);
  }
  return "";
}

}  // namespace

std::string hint(OptionRows& rows, std::string_view name, std::string_view prefix) {
  // In this order: options of launchers, names in other trainers, names that are spelled alike, and
  // names that contain it.
  const std::string asked = plain(name);
  const std::string quoted = fmt::format(" (did you mean {}", prefix);
  if (kRanksElsewhere.find(fmt::format(", {}, ", asked)) != kRanksElsewhere.npos)
    return " (did you mean lockstep_run -np N?)";
  std::vector<std::string_view> known, near;
  for (const OptionRow& row : rows.all()) {
    if (!row.name.starts_with("--")) continue;
    known.push_back(std::string_view(row.name).substr(2));
    for (const std::string& other : row.other_names) {
      const std::size_t end = std::min(other.find(' '), other.size());
      if (other.substr(0, end) == asked)
        return fmt::format("{}{}{}?)", quoted, known.back(),
                           prefix.empty() ? "" : other.substr(end));
    }
  }
  const std::string nearest_name = nearest(asked, known);
  std::ranges::copy_if(known, std::back_inserter(near), [&](std::string_view option) {
    return nearest_name.empty() ? asked.size() > 2 && option.find(asked) != option.npos
                                : option == nearest_name;
  });
  const std::string separator = fmt::format(", {}", prefix);
  return near.empty() ? "" : fmt::format("{}{}?)", quoted, fmt::join(near, separator));
}

void refuse_removed(std::string_view name, std::string_view value, std::string_view place) {
  for (const Removed& gone : kRemoved) {
    if (name != gone.name || value != gone.value) continue;
    fail_usage("{}{}{}{} does not exist. {}", place, name, value.empty() ? "" : " ", value,
               gone.instead);
  }
}

bool read_command_line(OptionRows& rows, const ProgramText& program, int argc, char** argv,
                       std::string& answer) {
  std::string topic;
  bool asked = false;
  rows.group("Help");
  rows.text("--help", topic, "[OPTION]", "Most used options, or the full text of one option")
      .is_of_command_line = true;
  rows.flag("--help-all", asked, "All options").is_of_command_line = true;
  rows.flag("--version", asked, "Version and compiler of this program").is_of_command_line = true;
  const std::vector<std::string> words(argv + 1, argv + argc);
  // A question is answered even if other words are wrong.
  answer = answer_to(rows, program, words);
  if (!answer.empty()) return false;
  read_words(rows, words);
  for (const char* name : {"--help-all", "--version"}) {
    if (rows.at(name).given()) fail_usage("{} accepts no value. Pass it without =.", name);
  }
  for (const OptionRow& row : rows.all()) {
    if (!row.name.starts_with('-') && !row.given())
      fail_usage("{} is missing. Pass it: {}", row.name, program.usage);
  }
  rows.check_exclusions();
  return true;
}

std::function<bool(std::string& answer)> reader_of(
    int argc, char** argv, const ProgramText& program,
    const std::function<void(OptionRows&)>& declare) {
  return [=](std::string& answer) {
    OptionRows rows;
    declare(rows);
    return read_command_line(rows, program, argc, argv, answer);
  };
}

}  // namespace lockstep
