// Command lines of all programs: words read into rows of options, and errors that name the nearest.
#pragma once

#include <string>
#include <string_view>

#include "apps/options/help.h"
#include "src/base/option_rows.h"

namespace lockstep {

/// " (did you mean --lr?)" if the names of some rows are near to `name`, with `prefix` in front of
/// each.
std::string hint(OptionRows& rows, std::string_view name, std::string_view prefix);

/// Adds --help, --help-all and --version, and reads the words into the rows. False if there is only
/// `answer` to print. Throws the usage error.
bool read_command_line(OptionRows& rows, const ProgramText& program, int argc, char** argv,
                       std::string& answer);

}  // namespace lockstep
