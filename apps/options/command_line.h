// Command lines of all programs: rows of options given to CLI11, and errors that name the nearest.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "src/base/option_rows.h"

namespace lockstep {

/// " (did you mean --lr?)" if an option of `app` is near to `name`, with `prefix` in front of its
/// name.
std::string hint(const CLI::App& app, std::string_view name, std::string_view prefix);

/// Makes an option of `app` of each row. The rows must outlive `app`.
void add_rows(CLI::App& app, OptionRows& rows);

/// Adds --help and --version under the heading `group`, and parses. False if `answer` is all that
/// is to be done. Throws the usage error.
bool read_command_line(CLI::App& app, int argc, char** argv, const char* group,
                       std::string& answer);

}  // namespace lockstep
