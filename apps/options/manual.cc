#include <fmt/format.h>

#include "apps/options/help.h"
#include "src/base/machine.h"
#include "src/base/text.h"

namespace lockstep {
namespace {

/// `text` as roff prints it unchanged.
std::string roff(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '-') result += '\\';
    result += c == '\'' ? "\\(aq" : std::string(1, c);
  }
  return result;
}

std::string option_entry(OptionRows& rows, const OptionRow& row, const ProgramText& program) {
  const OptionText text(row);
  std::string entry = fmt::format(".TP\n.B {}\n{}.\n", text.name, text.headline);
  if (!text.details.empty()) entry += text.details + "\n";
  entry += fmt::format("Type: {}.\n", text.type);
  if (!text.values.empty()) entry += fmt::format("Values: {}.\n", text.values);
  if (!text.by_default.empty()) entry += fmt::format("Default: {}.\n", text.by_default);
  return entry + fmt::format("Example:\n.br\n{}\n", example(rows, row, program));
}

}  // namespace

std::string man_page(OptionRows& rows, const ProgramText& program) {
  const std::string version = build_name();
  std::string group,
      text = fmt::format(
          ".TH {0} 1 \"\" \"Lockstep {1}\" \"User Commands\"\n"
          ".SH NAME\n{0} - {2}\n.SH SYNOPSIS\n{3}\n.SH DESCRIPTION\n{2}.\n.SH OPTIONS\n",
          program.name, version.substr(0, version.find(' ')), program.about, program.usage);
  for (const OptionRow& row : rows.all()) {
    if (row.group != group) text += fmt::format(".SS \"{}\"\n", row.group);
    group = row.group;
    text += option_entry(rows, row, program);
  }
  return roff(text) + R"(.SH EXIT STATUS
.TP
0
The work is complete.
.TP
1
An error occurred. One line on stderr names it.
.TP
2
The command line or the config file is wrong.
.TP
75
The run stopped on request after a checkpoint. The same command continues it.
.SH SEE ALSO
mpirun(1), train_cifar(1), train_mnist(1), train_reuters(1), train_images(1), train_texts(1),
evaluate(1), classify(1), export_model(1), compare_runs(1), report_runs(1), verify_run(1)
)";
}

std::string completion(OptionRows& rows, const ProgramText& program) {
  std::string names, cases;
  for (const OptionRow& row : rows.all()) {
    if (row.name.starts_with('-')) names += row.name + " ";
    if (row.values.empty()) continue;
    cases += fmt::format("    {}) COMPREPLY=($(compgen -W \"{}\" -- \"$word\")); return ;;\n",
                         row.name, fmt::join(row.values, " "));
  }
  return fmt::format(
      R"(# bash completion of {0}, made by {0} --print-completion
_{0}() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}}
  if [[ $word == = ]]; then word=; else [[ $before != = ]] || before=${{COMP_WORDS[COMP_CWORD - 2]}}; fi
  COMPREPLY=()
  case $before in
{1}    --help) word=--${{word#--}} ;;
  esac
  [[ $word != -* ]] || COMPREPLY=($(compgen -W "{2}" -- "$word"))
}}
complete -o default -F _{0} {0}
)",
      program.name, cases, names);
}

}  // namespace lockstep
