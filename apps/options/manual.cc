#include "apps/options/manual.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "src/base/machine.h"
#include "src/base/text.h"

namespace lockstep {
namespace {

/// `text` as roff prints it unchanged.
std::string roff(const std::string& text) {
  std::string result = text.starts_with('.') ? "\\&" : "";
  for (const char c : text) {
    switch (c) {
      case '\\':
        result += "\\e";
        break;
      case '-':
        result += "\\-";
        break;
      case '\'':
        result += "\\(aq";
        break;
      case '^':
        result += "\\(ha";
        break;
      case '~':
        result += "\\(ti";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string option_entry(const OptionRow& row) {
  std::string text = fmt::format(".TP\n\\fB{}\\fR", roff(row.name));
  if (!row.value.empty()) text += fmt::format(" \\fI{}\\fR", roff(row.value));
  text += fmt::format("\n{}.\n", roff(headline(row)));
  for (const std::string& line : lines_of(details(row))) text += roff(line) + "\n";
  if (!row.values.empty())
    text += fmt::format("Names: {}.\n", roff(fmt::format("{}", fmt::join(row.values, ", "))));
  if (!row.range.empty()) text += fmt::format("Range: {}.\n", roff(row.range));
  const std::string by_default = default_text(row);
  return by_default.empty() ? text : text + fmt::format("Default: {}.\n", roff(by_default));
}

}  // namespace

std::string man_page(OptionRows& rows, const ProgramText& program) {
  std::string title = program.name, about = program.about;
  std::transform(title.begin(), title.end(), title.begin(),
                 [](unsigned char c) { return std::toupper(c); });
  about[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(about[0])));
  const std::string version = build_name();
  std::string text = fmt::format(
      ".TH {} 1 \"\" \"Lockstep {}\" \"User Commands\"\n"
      ".SH NAME\n{} \\- {}\n"
      ".SH SYNOPSIS\n{}\n"
      ".SH DESCRIPTION\n{}.\n"
      ".SH OPTIONS\n",
      title, version.substr(0, version.find(' ')), program.name, roff(about), roff(program.usage),
      roff(program.about));
  for (const std::string& group : groups_of(rows)) {
    text += fmt::format(".SS \"{}\"\n", roff(group));
    for (const OptionRow& row : rows.all())
      if (row.group == group) text += option_entry(row);
  }
  return text +
         ".SH EXIT STATUS\n"
         ".TP\n0\nThe work is complete.\n"
         ".TP\n1\nAn error occurred. One line on stderr names it.\n"
         ".TP\n2\nThe command line or the config file is wrong.\n"
         ".TP\n75\nThe run stopped on request after a checkpoint. The same command continues it.\n"
         ".SH SEE ALSO\n"
         "mpirun(1), train_cifar(1), train_mnist(1), train_reuters(1), evaluate(1)\n";
}

std::string completion(OptionRows& rows, const ProgramText& program) {
  std::string names, cases, others;
  for (const OptionRow& row : rows.all()) {
    if (!row.name.starts_with('-')) continue;
    names += row.name + " ";
    if (!row.values.empty()) {
      cases += fmt::format("    {}) COMPREPLY=($(compgen -W \"{}\" -- \"$word\")); return ;;\n",
                           row.name, fmt::join(row.values, " "));
    } else if (row.name == "--help") {
      cases += "    --help) word=--${word#--} ;;\n";
    } else if (row.type != OptionRow::Type::flag) {
      others += (others.empty() ? "" : " | ") + row.name;
    }
  }
  return fmt::format(
      R"(# bash completion of {0}, made by {0} --print-completion
_{0}() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}}
  if [[ $word == = ]]; then word=; else [[ $before != = ]] || before=${{COMP_WORDS[COMP_CWORD - 2]}}; fi
  COMPREPLY=()
  case $before in
{1}    {2}) return ;;
  esac
  [[ $word != -* ]] || COMPREPLY=($(compgen -W "{3}" -- "$word"))
}}
complete -o default -F _{0} {0}
)",
      program.name, cases, others, names);
}

}  // namespace lockstep
