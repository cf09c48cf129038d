// Manual pages and bash completion, made from the same rows as the help.
#pragma once

#include <string>

#include "apps/options/help.h"
#include "src/base/option_rows.h"

namespace lockstep {

/// The page of section 1, in the macros of man(7).
std::string man_page(OptionRows& rows, const ProgramText& program);

/// A bash script that completes names of options, and values of those that choose from names.
std::string completion(OptionRows& rows, const ProgramText& program);

}  // namespace lockstep
