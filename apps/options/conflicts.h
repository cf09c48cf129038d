// Conflicts: options that do not go together, which the check of a single option cannot see.
#pragma once

#include <string>
#include <vector>

#include "apps/run/options.h"

namespace lockstep {

/// Throws the usage error. `rows` know which option the config file sets.
void check_together(const Options& o, OptionRows& rows);

/// The options other than by default that do nothing in this run, one line each.
std::vector<std::string> idle_options(const Options& o);

}  // namespace lockstep
