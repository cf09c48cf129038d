// Config files: lines name = value, which CLI11 reads as TOML.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "src/base/option_rows.h"

namespace lockstep {

/// Sets from `file` the rows that the command line has not set. Throws the usage error with file
/// and line. `app` knows all option names.
void read_config(const std::string& file, const CLI::App& app, OptionRows& rows);

/// All options with values as lines "name=value", which read_config() takes.
std::string config_text(OptionRows& rows);

/// The options that shape the weights, without the dashes, and the default of each as it stands in
/// config_text(); empty: none.
std::map<std::string, std::string> shaping_options(OptionRows& rows);

}  // namespace lockstep
