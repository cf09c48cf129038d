// Conflicts between options, which the check of a single option cannot see.
#pragma once

#include <string>
#include <vector>

#include "apps/run/options.h"

namespace lockstep {

/// Throws the usage error for options that exclude each other. The error names the option and, from
/// `rows`, the line of the config file that sets it.
void check_together(const Options& o, OptionRows& rows);

/// The options that are not at their default and have no effect in this run, one line each.
std::vector<std::string> idle_options(const Options& o);

}  // namespace lockstep
