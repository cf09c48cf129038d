// Config files: lines name = value, which CLI11 reads as TOML.
#pragma once

#include <map>
#include <string>

#include "src/base/option_rows.h"

namespace lockstep {

/// Sets from `file` the rows that the command line has not set. Throws the usage error with file
/// and line.
void read_config(const std::string& file, OptionRows& rows);

/// All options with values as lines "name=value", which read_config() reads.
std::string config_text(OptionRows& rows);

/// The options that shape the weights, without the dashes, and the default of each as config_text()
/// writes it. An empty text means no default.
std::map<std::string, std::string> shaping_options(OptionRows& rows);

}  // namespace lockstep
