// Command lines and config files, read into rows of options. Errors name the nearest option.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/options/help.h"
#include "apps/options/run_options.h"
#include "src/base/option_rows.h"

namespace lockstep {

/// " (did you mean --lr?)" if the names of some rows are near to `name`, with `prefix` in front of
/// each.
std::string hint(OptionRows& rows, std::string_view name, std::string_view prefix);

/// Throws the usage error if `name` is an option that former versions had, or `value` a value of
/// it, with what to pass instead. `place` stands in front: "run.toml:3: ".
void refuse_removed(std::string_view name, std::string_view value, std::string_view place = "");

/// Adds --help, --help-all and --version, and reads the words into the rows. False if there is only
/// `answer` to print. Throws the usage error.
bool read_command_line(OptionRows& rows, const ProgramText& program, int argc, char** argv,
                       std::string& answer);

/// For run_or_print_help() and run_without_ranks(): read_command_line() into the rows that
/// `declare` adds. `declare` may be called again, and begins with the defaults. `argv` outlives the
/// result.
std::function<bool(std::string& answer)> reader_of(int argc, char** argv,
                                                   const ProgramText& program,
                                                   const std::function<void(OptionRows&)>& declare);

/// run_without_ranks() of a program with the options that `declare` adds. `run` gets them and
/// returns the exit code.
template <class Options, class Run>
int run_without_ranks(int argc, char** argv, const ProgramText& program,
                      void (*declare)(OptionRows&, Options&), const Run& run) {
  Options options;
  return run_without_ranks(
      program.name.c_str(),
      reader_of(argc, argv, program, [&](OptionRows& rows) { declare(rows, options); }),
      [&] { return run(options); });
}

/// Sets from `file` the rows that the command line has not set. Throws the usage error with file
/// and line.
void read_config(const std::string& file, OptionRows& rows);

/// The options that describe a run. read_config() reads lines "name=value" of them.
std::vector<OptionValue> option_values(OptionRows& rows);

}  // namespace lockstep
